"""The pages of docs/reference that follow from the code: `python -m tests.architecture.reference` writes them (`make openapi`)."""

import argparse
import ast
import importlib
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.core.management.base import BaseCommand, DjangoHelpFormatter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference"
ROOMS = ("gpuaas", "tenants", "quotas", "billing")
KINDS = {"gauge": "gauge", "Gauge": "gauge", "Counter": "counter", "Histogram": "histogram"}
COMMANDS_HEAD = """# Commands

Each is `gpuaas-portal COMMAND` in an installation and `manage.py COMMAND` in a checkout; `--help` says the same. Commands of
Django, such as `migrate` and `check --deploy`, are there too. This page is written by `make openapi`.
"""
METRICS_HEAD = """# Metrics

What Prometheus finds at `/metrics` of each process and at `/metrics/portal`, beside the metrics of django-prometheus
(requests, database, caches). [Watching the portal](../operators/watching.md#metrics-boards-and-alerts) says how to scrape
them, [Alerts](../operators/alerts.md) which rules use them. A counter ends in `_total`, a histogram has `_bucket`, `_sum`
and `_count`. This page is written by `make openapi`.

"""


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    words: str
    labels: tuple[str, ...]


def commands() -> dict[str, BaseCommand]:
    """Our management commands by name, without those that only write documents of the repository."""
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("management/commands/[a-z]*.py"))
    found = {}
    for path in files:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[path.stem] = importlib.import_module(module).Command()
    return dict(sorted(found.items()))


def commands_page() -> str:
    return COMMANDS_HEAD + "".join(f"\n{_command(name, command)}" for name, command in commands().items())


def _command(name: str, command: BaseCommand) -> str:
    parser = command.create_parser("gpuaas-portal", name)
    parser.formatter_class = lambda prog: DjangoHelpFormatter(prog, width=110)
    words = textwrap.fill(" ".join(command.help.split()), 120, break_on_hyphens=False)
    options = [line for action in parser._actions if _is_own(action) for line in _option(action)]
    return f"## {name}\n\n{words}\n" + ("\n" + "\n".join(options) + "\n" if options else "")


def _is_own(action: argparse.Action) -> bool:
    return not set(action.option_strings) & DjangoHelpFormatter.show_last and action.dest != "help"


def _option(action: argparse.Action) -> list[str]:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        name = value
    else:
        name = action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")
    words = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    text = f"- `{name}`: {' '.join(words.split())}" if words else f"- `{name}`"
    return textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)


def metrics() -> Iterator[Metric]:
    """By name: every metric that the code declares with its help and its labels as literals."""
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                    known = _metric(node, KINDS[node.func.id])
                    if known is not None:
                        found[known.name] = known
    yield from (found[name] for name in sorted(found))


def _metric(call: ast.Call, kind: str) -> Metric | None:
    try:
        name, words, labels = (ast.literal_eval(each) for each in call.args[:3])
    except ValueError:
        return None
    known = isinstance(name, str) and name.startswith("gpuaas_")
    return (
        Metric(name + ("_total" if kind == "counter" else ""), kind, words, tuple(labels)) if known else None
    )


def metrics_page() -> str:
    rows = []
    for each in metrics():
        labels = f" by {', '.join(f'`{label}`' for label in each.labels)}" if each.labels else ""
        text = f"- `{each.name}` ({each.kind}{labels}): {each.words}"
        rows += textwrap.wrap(text, 120, subsequent_indent="  ", break_on_hyphens=False)
    return METRICS_HEAD + "\n".join(rows) + "\n"


PAGES = {"commands.md": commands_page, "metrics.md": metrics_page}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    import django

    django.setup()
    main()
