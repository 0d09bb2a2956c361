# gpuaas: `make help` lists the commands. No root and no Docker for any of them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# the system's Python first: distributions build theirs by a profile, and one compiled at home is often a tenth slower
PYTHON ?= $(shell for p in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
STAMPS := .venv/.stamps
# compiled modules are kept, or each of the hundreds of processes that the suite starts compiles everything anew
unexport PYTHONDONTWRITEBYTECODE
FRONTEND_SOURCES := $(shell find frontend/src frontend/scripts frontend/package.json frontend/package-lock.json frontend/vite.config.ts \
	frontend/tsconfig.json frontend/icons.txt frontend/templates -type f 2>/dev/null)
# one more than cores: a test waits a fifth of its time, for PostgreSQL or for a process
PYTEST_WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
DEEP_WORKERS ?= 2
TEMPLATE_STYLE := --line-length 120 --indent-width 2 \
	--custom-blocks confirm,removal,empty_state,card,table,listing,list_bar,filter_bar,dialog_head,fact frontend/templates gpuaas billing

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "gpuaas needs Python 3.11 or newer (Debian: apt install python3 python3-venv)"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "python's venv module is missing (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo: $(STAMPS)/venv requirements/demo.txt
	@echo "Installing the locked packages"
	@$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r requirements/demo.txt
	@touch $@

$(STAMPS)/test: $(STAMPS)/venv requirements/test.txt
	@echo "Installing the locked packages of the suite"
	@$(BIN)/uv pip install --quiet --require-hashes --python $(BIN)/python -r requirements/test.txt
	@touch $@ $(STAMPS)/demo

frontend/node_modules/.stamp: frontend/package-lock.json
	@node -e 'process.exit(+process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null \
		|| { echo "gpuaas needs Node.js 20 or newer with npm to build its front end"; exit 1; }
	@echo "Installing the front end's packages"
	@npm --prefix frontend ci --silent --no-audit --no-fund
	@touch $@

frontend/static/frontend/.stamp: frontend/node_modules/.stamp $(FRONTEND_SOURCES)
	@echo "Building the front end"
	@npm --prefix frontend run --silent build
	@touch $@

.PHONY: demo dev demo-reset lab lab-down
demo: $(STAMPS)/demo frontend/static/frontend/.stamp ## the portal with embedded services and a sandbox site; Ctrl-C stops all of it
	@$(BIN)/python -m deploy.demo up

dev: $(STAMPS)/test frontend/static/frontend/.stamp ## the demo, and each process starts again when its files change
	@$(BIN)/python -m deploy.demo dev

demo-reset: $(STAMPS)/demo ## forget the demo's data
	@$(BIN)/python -m deploy.demo reset

lab: $(STAMPS)/demo ## beside a running demo: a real Kubernetes control plane, attached as a site
	@$(BIN)/python -m deploy.demo lab

lab-down: $(STAMPS)/demo ## stop the lab's control plane
	@$(BIN)/python -m deploy.lab.kubernetes down

.PHONY: package image release
package: $(STAMPS)/demo frontend/static/frontend/.stamp ## the portal as an installable wheel, in dist/
	@$(BIN)/python -m deploy.image wheel

image: $(STAMPS)/demo frontend/static/frontend/.stamp ## the container image and its bill of materials, in dist/ (Debian 12)
	@$(BIN)/python -m deploy.image

release: package image ## both, with their sums signed: make release KEY=~/.ssh/id_ed25519
	@$(BIN)/python -m deploy.image sign --key $(KEY)

.PHONY: check check-types check-sources check-frontend check-style
.PHONY: test test-deep durations lint audit bench bench-compare bench-keep docs pictures openapi lock
test: $(STAMPS)/test frontend/static/frontend/.stamp ## the fast tier of the suite: PostgreSQL, one real Kubernetes API server, a browser
	@$(BIN)/python -m deploy.testing fast -n $(PYTEST_WORKERS)

test-deep: $(STAMPS)/test frontend/static/frontend/.stamp ## all the rest, room by room; ROOM=openstack, ROOM="billing api" chooses
	@$(BIN)/python -m deploy.testing deep -n $(DEEP_WORKERS) --room "$(ROOM)"

durations: $(STAMPS)/test frontend/static/frontend/.stamp ## the fast tier on a quiet machine; writes tests/durations.json
	@$(BIN)/python -m deploy.testing fast -n $(PYTEST_WORKERS) --durations-keep

check: $(STAMPS)/test frontend/static/frontend/.stamp ## style, types, floors, templates, migrations, front end, documentation
	@$(MAKE) --silent --jobs 2 --output-sync check-sources check-style check-types check-frontend docs

check-types:
	@$(BIN)/mypy

check-sources:
	@$(BIN)/python -m pytest -q -n0 --no-header --tb=short --tier=check tests/architecture

check-frontend:
	@npm --prefix frontend run --silent check

check-style:
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports
	@$(BIN)/djlint --quiet --lint frontend/templates
	@$(BIN)/djangofmt --quiet --check $(TEMPLATE_STYLE)
	@DJANGO_SETTINGS_MODULE=gpuaas.settings.test $(BIN)/python manage.py makemigrations --check --dry-run
	@DJANGO_SETTINGS_MODULE=gpuaas.settings.test $(BIN)/python manage.py check

lint: $(STAMPS)/test frontend/node_modules/.stamp ## repair what can be repaired: style of Python, templates, TypeScript and CSS
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet . ; $(BIN)/djangofmt --quiet $(TEMPLATE_STYLE)
	@npm --prefix frontend run --silent lint

audit: $(STAMPS)/test ## known holes in the locked packages, by the advisories of PyPI and npm; AUDIT has options of pip-audit
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		-r requirements/bootstrap.txt -r requirements/test.txt $(AUDIT)
	@npm --prefix frontend audit --package-lock-only

bench: $(STAMPS)/test frontend/static/frontend/.stamp ## ratios against a floor measured in the same run
	@$(BIN)/python -m tests.bench $(BENCH)

bench-compare: $(STAMPS)/test frontend/static/frontend/.stamp ## the same; fails where a ratio fell by a third of docs/performance.md
	@$(BIN)/python -m tests.bench --compare $(BENCH)

bench-keep: $(STAMPS)/test frontend/static/frontend/.stamp ## the same, written to docs/performance.md
	@$(BIN)/python -m tests.bench --keep $(BENCH)

docs: $(STAMPS)/test ## the documentation as a site in site/; every link is checked
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs site

pictures: $(STAMPS)/test frontend/static/frontend/.stamp ## the pictures of the guides anew, in light and dark
	@GPUAAS_PICTURES=$(CURDIR)/docs/pictures $(BIN)/python -m pytest -q -n0 tests/frontend/pages/test_pictures.py

openapi: $(STAMPS)/test ## write the API's document, the table of permissions and the reference anew
	@DJANGO_SETTINGS_MODULE=gpuaas.settings.test $(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.v1.yaml
	@DJANGO_SETTINGS_MODULE=gpuaas.settings.test $(BIN)/python manage.py permissions_table
	@DJANGO_SETTINGS_MODULE=gpuaas.settings.test $(BIN)/python -m tests.architecture.reference

lock: $(STAMPS)/venv ## newest versions into the locks
	@for name in bootstrap base demo test; do $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url requirements/$$name.in -o requirements/$$name.txt; done
	@for name in traces door; do $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --constraints requirements/base.txt requirements/$$name.in -o requirements/$$name.txt; done
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.12 --generate-hashes \
		--no-header --no-emit-index-url requirements/focus.in -o requirements/focus.txt
	@for name in notebook tensorboard; do $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url requirements/$$name.in -o requirements/$$name.txt; done
