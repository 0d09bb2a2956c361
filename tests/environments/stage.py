"""Helpers of the environments' tests: order one in a ready workspace, and drive its reconciler by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.core.ids import uuid7
from gpuaas.environments.models import (
    Environment,
    EnvironmentKind,
    EnvironmentLog,
    EnvironmentOperation,
    EnvironmentUse,
)
from gpuaas.environments.reconcile import run
from gpuaas.environments.services import environment_create, kind_create
from gpuaas.environments.use import use_look
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import fleet_seed
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxNamespace, SandboxPod, SandboxSite
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tests.workspaces import stage

# of what nobody uses: ready at START, stopped after HOURS
START, HOURS = datetime(2027, 3, 1, 8, tzinfo=UTC), 4
RESTING = {"ready", "suspended", "failed", "deleted"}
DOCUMENT: dict[str, Any] = {
    "image": "notebook:1",
    "arguments": ["--folder=$(FOLDER)"],
    "port": 8888,
    "readiness": "/api",
    "home": "/home/user",
    "gpus": 1,
    "vcpus": 4,
    "memory_gib": 16,
    "home_gib": 10,
    "parameters": {"type": "object", "properties": {"folder": {"type": "string", "default": "work"}}},
}

SHELL: dict[str, Any] = {
    "image": "shell:1",
    "home": "/home/user",
    "gpus": 1,
    "vcpus": 1,
    "memory_gib": 1,
    "home_gib": 1,
}

# what the API is sent by those who may not, and what names nothing
NOBODYS = {"environment": uuid7(), "kind": "nothing", "door_key": uuid7()}
BODIES: dict[tuple[str, str], Any] = {
    ("environments", "POST"): {"workspace": str(uuid7()), "kind": "notebook", "name": "mine"},
    ("environment-start", "POST"): {},
    ("environment-stop", "POST"): {},
    ("environment-restart", "POST"): {},
    ("environment", "PATCH"): {"idle_hours": 2},
    ("environment-keep", "POST"): {"until": (now() + timedelta(days=1)).isoformat()},
    ("environment-keys", "POST"): {"name": "mine"},
    ("environment-clone", "POST"): {"name": "mine"},
    ("environment-log", "POST"): {},
    ("environment-files", "PUT"): None,
    ("environment-file-content", "PUT"): b"mine",
    ("platform-environment-kinds", "POST"): {"slug": "mine", "name": "Mine", "document": DOCUMENT},
    ("platform-environment-kind", "PATCH"): {"state": "retired"},
    ("platform-environment-kind-versions", "POST"): {"document": DOCUMENT},
}


def named(workspace: Workspace) -> dict[str, Any]:
    """What addresses name."""
    row = row_in(workspace)
    at_site(row, "mine/", "mine.txt")
    return {"environment": row.pk, "kind": "notebook", "door_key": row.keys.get().pk}


def kind(slug: str = "notebook", **changes: Any) -> EnvironmentKind:
    found = EnvironmentKind.objects.filter(slug=slug).first()
    return found or kind_create(actor=SYSTEM, slug=slug, name="Notebook", document={**DOCUMENT, **changes})


def ordered(actor: Actor, workspace: Workspace, name: str = "lab", **wanted: Any) -> Environment:
    return environment_create(actor=actor, workspace=workspace, kind=kind().slug, name=name, **wanted)


def row_in(workspace: Workspace, name: str = "lab", **changes: Any) -> Environment:
    """As the database has one, whatever its workspace does; with an operation, a step, a log and a key."""
    moment, version = now(), kind().versions.earliest("number")
    about = {"project": workspace.project, "site": workspace.site, "created_by": workspace.created_by}
    sizes = {"gpus": 0, "vcpus": 1, "memory_gib": 1, "home_gib": 1}
    made = {**about, **sizes, "state": "ready", "ready_at": moment, **changes}
    row = Environment.objects.create(
        workspace=workspace, made_of=version, name=name, created_at=moment, **made
    )
    operation = row.operations.create(
        kind="create", requested_by="alice", requested_at=moment, finished_at=moment, succeeded=True
    )
    operation.steps.create(position=0, key="home", label="Create the home volume", state="done")
    row.keys.create(
        name="demo", prefix="0" * 12, secret_hash=row.pk.hex, created_by=row.created_by, created_at=moment
    )
    EnvironmentLog.objects.create(environment=row, text="listening", taken_at=moment)
    return row


def at_site(row: Environment, *names: str) -> None:
    """So that it runs at the simulated site, whatever its workspace does there; with files of those names in its home,
    and folders, whose names end with a slash."""
    moment, site = now(), SandboxSite.objects.get_or_create(pk=row.site_id)[0]
    room, _ = SandboxNamespace.objects.get_or_create(
        site=site, name=row.workspace.external_name, defaults={"owner": row.workspace_id}
    )
    room.pods.create(
        site=site, name=row.external_name, created_at=moment, scheduled_at=moment - timedelta(minutes=1)
    )
    claim = room.claims.create(name=row.external_name, gib=1, storage_class="fast", created_at=moment)
    for number, name in enumerate(names, start=1):
        about = {"is_folder": name.endswith("/"), "changed_at": moment - timedelta(days=number)}
        claim.files.create(path=name.removesuffix("/"), content=b"x" * number, **about)


def run_now(row: Environment) -> Environment:
    """One visit, whenever it would have been due."""
    Environment.objects.filter(pk=row.pk).update(due_at=now())
    run(row.pk)
    return Environment.objects.select_related("workspace", "made_of__kind").get(pk=row.pk)


def settle(row: Environment, *, runs: int = 20) -> Environment:
    for _ in range(runs):
        row = run_now(row)
        if row.state in RESTING:
            return row
    raise AssertionError(f"still {row.state} after {runs} runs: {row.conditions} {log(row)}")


def workspace_ready(
    actor: Actor, project: Any, site: Site, *, name: str = "train", h100s: int = 4
) -> Workspace:
    made = stage.ready(actor, project, site, name=name, h100s=h100s)
    fleet_seed(site.pk, slug=site.slug)
    dials_set(site.pk, environment_ms=0)
    return made


def ready(actor: Actor, workspace: Workspace, name: str = "lab", **wanted: Any) -> Environment:
    row = settle(ordered(actor, workspace, name, **wanted))
    assert row.state == "ready", row.failure
    return row


def log(row: Environment) -> list[tuple[str, str]]:
    """The steps of its last operation."""
    newest = EnvironmentOperation.objects.filter(environment=row).first()
    return list(newest.steps.values_list("key", "state")) if newest else []


def pods(workspace: Workspace) -> list[str]:
    rows = SandboxPod.objects.filter(namespace__name=workspace.external_name, finished_at=None)
    return sorted(rows.values_list("name", flat=True))


def homes(workspace: Workspace) -> list[str]:
    rows = SandboxClaim.objects.filter(namespace__name=workspace.external_name)
    return sorted(rows.values_list("name", flat=True))


def use_now(row: Environment) -> Environment:
    """One look at its use, whenever it would have been due."""
    EnvironmentUse.objects.filter(pk=row.pk).update(due_at=now())
    use_look(row.pk)
    return Environment.objects.select_related("workspace", "made_of__kind", "use").get(pk=row.pk)


def said(row: Environment) -> tuple[str, str]:
    found = row.conditions["InUse"]
    return found["status"], found["reason"]


def at(travel: time_machine.Traveller, row: Environment, **after: float) -> Environment:
    travel.move_to(START + timedelta(**after))
    return use_now(row)
