"""An outsider finds nothing, at every address of the API: one that is added without a case here fails the test."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.ids import uuid7
from gpuaas.workspaces.machines.models import Machine, PublicKey
from gpuaas.workspaces.models import Adoption, Drift, Workspace
from tenants.actors import Actor
from tenants.models import ApiToken, Organization, Project, User
from tests.apart import each_apart
from tests.api.addresses import Address, addresses
from tests.api.caller import Caller, token_for
from tests.api.cluster_stage import DOCUMENT, cluster_stage
from tests.api.writes import writes
from tests.billing.ledger_stage import ledger_stage
from tests.billing.stage import budget_stage, card_stage, pool_stage
from tests.clusters.host_stage import described, host_at
from tests.environments import stage as environments
from tests.factories.billing import invoice_make
from tests.factories.catalog import check_make, class_make
from tests.jobs import stage as jobs

pytestmark = pytest.mark.django_db

# Addresses without an owner: what an outsider may ask there. Everything else is 404.
OPEN = {
    ("me", "GET"),
    ("organizations", "GET"),
    ("projects", "GET"),
    ("keys", "GET"),
    ("flavors", "GET"),
    ("gpu-types", "GET"),
    ("sites", "GET"),
    ("storage-classes", "GET"),
}
# What is the asker's own, so that everybody may: a person; a token may not.
PERSONAL = {("keys", "POST"): (201, 403), ("node-reports", "POST"): (401, 401)}
PERSONAL |= {("queue-reports", "POST"): (401, 401)}
# What is of the token's maker, whom it may not act for beyond its project.
MAKERS = {("key", "GET"): (404, 403), ("key", "DELETE"): (404, 403)}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
ITEMS = [{"flavor": "h100.1", "count": 1}]
BUDGET = {
    "name": "mine",
    "measure": "gpu_hours",
    "amount": "1",
    "period": "month",
    "thresholds": [{"percent": 100, "effect": "block"}],
}
POLICY = {"pool": "gpu", "kind": "pending", "minimum": 0, "maximum": 4}
BODIES: dict[tuple[str, str], Any] = {
    ("organization", "PATCH"): {"name": "Mine"},
    ("organization-projects", "POST"): {"slug": "mine", "name": "Mine"},
    ("organization-member", "PUT"): {"role": "owner"},
    ("project", "PATCH"): {"name": "Mine"},
    ("project-member", "PUT"): {"role": "admin"},
    ("tokens", "POST"): {
        "name": "mine",
        "scopes": ["workspace:view"],
        "expires_at": (clock.now() + timedelta(days=1)).isoformat(),
    },
    ("workspaces", "POST"): {"name": "mine", "items": ITEMS},
    ("workspace-preview", "POST"): {"items": ITEMS},
    ("workspace", "PATCH"): {"items": ITEMS},
    ("workspace-quote", "POST"): {"items": ITEMS},
    ("workspace-retry", "POST"): {},
    ("workspace-suspend", "POST"): {"reason": "for fun"},
    ("workspace-resume", "POST"): {},
    ("workspace-grants-revoke", "POST"): {"username": "alice"},
    ("workspace-robots", "POST"): {"name": "mine", "role": "admin"},
    ("workspace-robot-kubeconfig", "POST"): {},
    ("workspace-robot-credential", "POST"): {},
    ("workspace-credential", "POST"): {},
    ("workspace-kubeconfig", "POST"): {},
    ("workspace-drift-check", "POST"): {},
    ("platform-site-drift-check", "POST"): {},
    ("platform-drift-repair", "POST"): {},
    ("workspace-member", "PUT"): {"role": "admin"},
    ("machines", "POST"): {"name": "mine", "flavor": "h100.1", "image": "img-debian-12"},
    ("machine-actions", "POST"): {"verb": "stop"},
    ("machine-console", "POST"): {},
    **environments.BODIES,
    **jobs.BODIES,
    ("keys", "POST"): {"name": "mine", "public_key": KEY},
    ("platform-sites", "POST"): {"slug": "mine", "name": "Mine", "driver": "sandbox"},
    ("platform-site", "PATCH"): {"enabled": False},
    ("platform-site-preflight", "POST"): {},
    ("platform-node-checks", "POST"): {"node": "h100-01"},
    ("platform-flavor", "PATCH"): {"state": "retired"},
    ("platform-storage-class", "PATCH"): {"state": "retired"},
    ("platform-flavors", "POST"): {
        "site": "ber-1",
        "gpu_type": "h100-sxm-80gb",
        "slug": "mine",
        "name": "Mine",
        "vcpus": 1,
        "memory_gib": 1,
    },
    ("platform-gpu-type", "PATCH"): {"state": "retired"},
    ("platform-organizations", "POST"): {"slug": "mine", "name": "Mine"},
    ("platform-project-limit", "PUT"): {"hard": None},
    ("platform-organization-limit", "PUT"): {"hard": None},
    ("platform-adoption-scan", "POST"): {},
    ("platform-adoptions", "POST"): {
        "external_name": "old-lab",
        "project": "weather-lm",
        "name": "mine",
        "items": ITEMS,
    },
    ("platform-adoption-confirm", "POST"): {},
    ("project-budgets", "POST"): BUDGET,
    ("project-budget", "PUT"): BUDGET,
    ("organization-budgets", "POST"): BUDGET,
    ("organization-budget", "PUT"): BUDGET,
    ("platform-invoice-notes", "POST"): {
        "note": "credit_note",
        "reason": "mine",
        "lines": [{"line": 1, "amount": "1"}],
    },
    ("platform-payment-reverse", "POST"): {"reason": "mine"},
    ("platform-payout-reverse", "POST"): {"reason": "mine"},
    ("platform-grant-reverse", "POST"): {"reason": "mine"},
    ("platform-write-off-reverse", "POST"): {"reason": "mine"},
    ("platform-usage-write-offs", "POST"): {
        "month": "2026-10",
        "resource": "CUSTOM_PCI_10DE_25B7",
        "meter": "gpu_allocated",
        "reason": "mine",
    },
    ("platform-invoice-write-off", "POST"): {"reason": "mine"},
    ("platform-usage-imports", "POST"): {"usage": "mine"},
    ("platform-usage-import-preview", "POST"): {"usage": "mine"},
    ("platform-usage-import-take-back", "POST"): {},
    ("platform-organization-grants", "POST"): {"amount": "500", "expires_at": "2030-01-01T00:00:00Z"},
    ("platform-organization-payments", "POST"): {"amount": "500"},
    ("platform-organization-payouts", "POST"): {"amount": "5"},
    ("node-reports", "POST"): {"stage": "booted"},
    ("queue-reports", "POST"): {"pools": []},
    ("clusters", "POST"): {"template": "k8s", "name": "mine"},
    ("cluster-plan", "POST"): {"template": "k8s"},
    ("cluster-scale-plan", "POST"): {"pools": {"gpu": 2}},
    ("cluster", "PATCH"): {"pools": {"gpu": 2}},
    ("cluster-upgrade", "POST"): {"release": "1.36.3"},
    ("cluster-retry", "POST"): {},
    ("cluster-suspend", "POST"): {"reason": "for fun"},
    ("cluster-resume", "POST"): {},
    ("cluster-credential", "POST"): {},
    ("cluster-grants-revoke", "POST"): {},
    ("cluster-jobs", "POST"): {"name": "mine", "script": "true"},
    ("cluster-job-cancel", "POST"): {},
    ("cluster-job-retry", "POST"): {},
    ("cluster-policies", "POST"): POLICY,
    ("cluster-policy", "PUT"): {name: value for name, value in POLICY.items() if name != "pool"},
    ("cluster-policy", "PATCH"): {"enabled": True},
    ("cluster-policy-dry-run", "POST"): POLICY,
    ("environment-files", "PATCH"): {"to": "yours"},
    ("platform-hosts", "POST"): {"hosts": [described()]},
    ("platform-host-actions", "POST"): {"action": "take-out", "reason": "mine"},
    ("platform-cluster-templates", "POST"): {
        "slug": "mine",
        "name": "Mine",
        "kind": "kubernetes",
        "site": "ber-1",
        "driver": "sandbox",
    },
    ("platform-cluster-template", "PATCH"): {"state": "retired"},
    ("platform-cluster-template-versions", "POST"): {"document": DOCUMENT},
    ("platform-cluster-template-version", "PATCH"): {"deprecated": True},
    ("platform-cluster-template-organization", "PUT"): {},
    ("platform-cluster-template-import", "POST"): {},
    ("platform-cluster-template-import-publish", "POST"): {},
    ("platform-warm-pools", "POST"): {
        "name": "mine",
        "project": "weather-lm",
        "document": {},
        "wanted": 1,
    },
    ("platform-warm-pool", "PATCH"): {"wanted": 1},
    ("platform-closes", "POST"): {"month": "2026-09"},
    ("platform-rates", "POST"): {"meter": "vcpu_held", "price": "0"},
    ("platform-rate-cards", "POST"): {"currency": "USD"},
    ("platform-rate-card-drafts", "POST"): {},
    ("platform-rate-draft-lines", "PUT"): {"meter": "vcpu_held", "price": "0"},
    ("platform-rate-draft-publish", "POST"): {},
    ("platform-billing-account", "PUT"): {"currency": "USD"},
    ("platform-cost-center", "PUT"): {"cost_center": "4711"},
    ("platform-discounts", "POST"): {"percent": "100"},
    ("platform-pool-reservations", "POST"): {"flavor": "h100.own", "project": "weather-lm"},
    ("platform-pool-reservation", "PATCH"): {"note": "longer"},
    ("platform-pool-reservation-end", "POST"): {},
}
QUERIES = {"usage-totals": "?starts_at=2026-11-01T00:00:00Z&ends_at=2026-12-01T00:00:00Z"}
QUERIES |= {"environment-files": "?path=mine", "environment-file-content": "?path=mine.txt"}
CASES = [
    (f"{method} {address.name}", (address, method)) for address in addresses() for method in address.methods
]


def key_make(user: User) -> None:
    PublicKey.objects.create(
        user=user, name="laptop", public_key=KEY, fingerprint="f", created_at=clock.now()
    )


def adoption_make(site: Site, project: Project, user: User) -> Adoption:
    return Adoption.objects.create(
        site=site, project=project, external_name="old-lab", requested_by=user, requested_at=clock.now()
    )


@pytest.fixture
def stage(
    workspace: Workspace,
    alice: User,
    bob: User,
    project: Project,
    organization: Organization,
    site: Site,
    as_alice: Actor,
    as_olga: Actor,
) -> dict[str, Any]:
    token_for(alice, project)
    machine = Machine.objects.create(workspace=workspace, name="train-7b", created_at=clock.now())
    key_make(alice)
    invoice = invoice_make(project)
    return {
        **cluster_stage(olga=as_olga, alice=as_alice, project=project, site=site),
        "machine": machine.pk,
        **(environments.named(workspace) | jobs.named(workspace)),
        "key": "laptop",
        **ledger_stage(invoice, project),
        "adoption": adoption_make(site, project, alice).pk,
        "check": check_make(site).pk,
        "drift": Drift.objects.create(workspace=workspace, found_at=clock.now(), digest="one").pk,
        "project": project.slug,
        "organization": organization.slug,
        "workspace": workspace.pk,
        "token": ApiToken.objects.get().pk,
        "username": "bob",
        "robot": "ci",
        "site": site.slug,
        "host": host_at(site).name,
        "flavor": "h100.1",
        "gpu_type": "h100-sxm-80gb",
        "resource": "gpu:h100-sxm-80gb",
        "month": "2026-11",
        "budget": budget_stage(project).pk,
        "storage_class": class_make(site).pk,
        "reservation": pool_stage(project, Flavor.objects.get(slug="h100.1")).pk,
        **card_stage(project, Flavor.objects.get(slug="h100.1")),
    }


def ask(caller: Caller, address: Address, method: str, stage: dict[str, Any], **headers: str) -> Any:
    path = address.path(**stage) + QUERIES.get(address.name, "")
    return caller.ask(method, path, BODIES.get((address.name, method)), **headers)


def test_every_address_with_a_body_has_a_case() -> None:
    writing = {(address.name, method) for _, (address, method) in CASES if method in {"POST", "PUT", "PATCH"}}
    assert writing == set(BODIES)


def test_an_outsider(subtests: pytest.Subtests, charlies: Caller, stage: dict[str, Any]) -> None:
    each_apart(subtests, CASES, partial(outside, charlies, stage))


def outside(charlies: Caller, stage: dict[str, Any], address: Address, method: str) -> None:
    with writes() as written:
        answer = ask(charlies, address, method, stage)
    if (address.name, method) in PERSONAL:
        assert answer.status == PERSONAL[address.name, method][0], answer.json
        return
    assert answer.status == (200 if (address.name, method) in OPEN else 404), answer.json
    for secret in ("weather-lm", "train-7b", "climate", "alice"):
        assert secret not in answer.content.decode()
    assert not written


def test_a_token_of_another_project_of_the_same_person(
    subtests: pytest.Subtests, alice: User, other_project: Project, stage: dict[str, Any]
) -> None:
    """alice's own right does not help a token that was made for another project."""
    other_project.memberships.create(user=alice, role="admin")
    program = Caller(token=token_for(alice, other_project))
    each_apart(subtests, CASES, partial(elsewhere, program, stage))


def elsewhere(program: Caller, stage: dict[str, Any], address: Address, method: str) -> None:
    with writes() as written:
        answer = ask(program, address, method, stage)
    if (address.name, method) in PERSONAL | MAKERS:
        assert answer.status == (PERSONAL | MAKERS)[address.name, method][1], answer.json
        assert not written
        return
    assert answer.status == (200 if (address.name, method) in OPEN else 404), answer.json
    assert "weather-lm" not in answer.content.decode()
    assert not written


def test_nobody(subtests: pytest.Subtests, nobody: Caller, stage: dict[str, Any]) -> None:
    def check(address: Address, method: str) -> None:
        with writes() as written:
            answer = ask(nobody, address, method, stage)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert not written

    each_apart(subtests, CASES, check)


OTHER_ROWS = "discount payment payout grant written unpriced reservation cluster cluster_job policy"


def test_a_stranger_learns_as_much_from_what_is_not_there(
    subtests: pytest.Subtests, charlies: Caller, stage: dict[str, Any]
) -> None:
    """The answer about alice's things is word for word the answer about things that do not exist."""
    nothing = {
        **stage,
        "project": "no-such",
        "organization": "no-such",
        "workspace": uuid7(),
        "token": uuid7(),
        "site": "no-such",
        "host": "no-such",
        "machine": uuid7(),
        **environments.NOBODYS,
        **jobs.NOBODYS,
        "key": "no-such",
        "adoption": uuid7(),
        "check": uuid7(),
        "number": "INV-2026-9999",
        "card": "no-such",
        "version": 999,
        "draft": uuid7(),
        "line": uuid7(),
        "template": "no-such",
    } | {name: uuid7() for name in OTHER_ROWS.split()}

    def check(address: Address, method: str) -> None:
        real, missing = ask(charlies, address, method, stage), ask(charlies, address, method, nothing)
        assert real.status == missing.status
        if real.status == 404:
            assert {**real.error, "request_id": ""} == {**missing.error, "request_id": ""}

    others = [(name, case) for name, case in CASES if (case[0].name, case[1]) not in PERSONAL]
    each_apart(subtests, others, check)


def test_an_auditor_looks_and_changes_nothing(
    subtests: pytest.Subtests, stage: dict[str, Any], olga: User
) -> None:
    olga.platform_role = "auditor"
    olga.save()
    auditor = Caller(olga)

    def check(address: Address, method: str) -> None:
        with writes() as written:
            answer = ask(auditor, address, method, stage)
        assert answer.status == (200 if method == "GET" else 403), answer.json
        assert not written

    each_apart(subtests, [(name, case) for name, case in CASES if case[0].name.startswith("platform")], check)
