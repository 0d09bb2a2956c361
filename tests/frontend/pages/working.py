"""The demo's environments and jobs in the thick of it: a notebook in use, an endpoint with keys and five days of requests, an array
half done, a queue, and a guest in another workspace."""

from datetime import datetime, timedelta
from typing import Any

import time_machine

from deploy.embedded import seed
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.environments import reconcile
from gpuaas.environments.door.passes import keys_note, use_note
from gpuaas.environments.models import Environment, EnvironmentCounter
from gpuaas.environments.services import environment_log_ask, key_create
from gpuaas.environments.services.access import hashed
from gpuaas.environments.tokens import counts_look
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_follow
from gpuaas.jobs.states import JobState
from gpuaas.providers.sandbox.dials import dials_set, fault_set
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_lend, workspace_request
from tenants.actors import Actor
from tenants.models import Project
from tests.environments.stage import run_now as environment_visit
from tests.environments.stage import use_now
from tests.jobs.stage import run_now, submitted
from tests.workspaces.stage import settle

DAYS = 5
REGRID = ["sh", "-c", "[ $JOB_COMPLETION_INDEX = 4 ] && exit 3; python regrid.py; sleep 12"]
WAVE, WAVES = timedelta(seconds=13), 4  # of its tasks that run at once
LM: dict[str, Any] = {"image": "ghcr.io/weather/lm:7", "vcpus": 16, "memory_gib": 128}


def working(alice: Actor, project: Project) -> dict[str, object]:
    """What addresses name. It has begun before this moment, and is looked at in it."""
    site, now = Site.objects.get(slug="ber-1"), clock.now()
    dials_set(site.pk, environment_ms=0)
    with time_machine.travel(now - timedelta(days=DAYS), tick=True):
        seed.environments()
    with time_machine.travel(now - timedelta(hours=3), tick=True):
        seed.jobs()
    made = _jobs(alice, _lab(alice, project, now), now)
    notebook, endpoint = (Environment.objects.get(name=name) for name in ("explore", "chat"))
    with time_machine.travel(now, tick=False):
        _asked(alice, endpoint)
        _used(alice, notebook)
        for row in Job.objects.filter(state=JobState.RUNNING):
            run_now(row)
    return {"notebook": notebook.pk, "endpoint": endpoint.pk, **made}


def _lab(alice: Actor, project: Project, now: datetime, name: str = "era5-lab", gpus: int = 6) -> Workspace:
    items = [("a100-sxm-80gb.1", gpus)]
    with time_machine.travel(now - timedelta(days=1), tick=True):
        return settle(
            workspace_request(actor=alice, project=project, name=name, items=items, storage_gib=200)
        )


def _jobs(alice: Actor, lab: Workspace, now: datetime) -> dict[str, object]:
    """An array and another one run, and two wait for more than they leave."""
    with time_machine.travel(now - timedelta(hours=1), tick=True):
        words = ["sh", "-c", "python distill.py; sleep 80000"]
        run_now(submitted(alice, lab, "distill", command=words, gpus=1, deadline_seconds=28_800, **LM))
    array = _array(alice, lab, now)
    for wave in range(WAVES, -1, -1):
        with time_machine.travel(now - (wave + 0.5) * WAVE, tick=True):
            for _ in range(3):
                run_now(array)
    waiting = {}
    for name, gpus, minutes in (("verify", 4, 4), ("ablation", 2, 3)):
        more = {**LM, "command": ["python", f"{name}.py"], "gpus": gpus, "deadline_seconds": 7200}
        with time_machine.travel(now - timedelta(minutes=minutes), tick=False):
            waiting[name] = submitted(alice, lab, name, **more)
    guest = _guest(alice, lab, now)
    with time_machine.travel(now, tick=False):
        job_follow(actor=alice, job=array, task=13)
        for row in waiting.values():
            run_now(row)
    return {"lab": lab.pk, "array": array.pk, "queued": waiting["ablation"].pk, "guest": guest.pk}


def _guest(alice: Actor, lab: Workspace, now: datetime) -> Job:
    """One that runs in a second workspace while its own is full."""
    lender = _lab(alice, lab.project, now, name="era5-shared", gpus=2)
    workspace_lend(actor=alice, workspace=lender, open_to_project=True)
    words = ["sh", "-c", "python pretrain.py --resume latest; sleep 80000"]
    with time_machine.travel(now - timedelta(minutes=2), tick=True):
        row = submitted(alice, lab, "pretrain", **LM, command=words, gpus=2, borrow=True)
        return run_now(row)


def _array(alice: Actor, lab: Workspace, now: datetime) -> Job:
    about = {"image": "ghcr.io/weather/regrid:4", "command": REGRID, "variables": {"YEAR": "2025"}}
    each = {"gpus": 1, "vcpus": 8, "memory_gib": 64, "deadline_seconds": 10_800}
    with time_machine.travel(now - timedelta(minutes=2), tick=True):
        return submitted(alice, lab, "regrid", **about, **each, tasks=20, at_once=3)


def _asked(alice: Actor, row: Environment) -> None:
    """With two keys, one of which a program shows this minute."""
    secret = ""
    for name, days in (("evaluation", DAYS - 1), ("news-summaries", 2)):
        with time_machine.travel(clock.now() - timedelta(days=days), tick=True):
            _, secret = key_create(actor=alice, environment=row, name=name)
            keys_note([hashed(secret)])
    keys_note([hashed(secret)])
    for hours in range(DAYS * 24, -1, -4):
        with time_machine.travel(clock.now() - timedelta(hours=hours), tick=True):
            EnvironmentCounter.objects.filter(pk=row.pk).update(due_at=clock.now())
            counts_look(row.pk)
    use_note([row.pk])
    _looked(alice, row)


def _used(alice: Actor, row: Environment) -> None:
    told = {"at": clock.now().isoformat(), "kernel": "busy"}
    fault_set(row.site_id, area="use", name=row.external_name, found=told)
    _looked(alice, row)


def _looked(alice: Actor, row: Environment) -> None:
    use_now(environment_visit(row))
    environment_log_ask(actor=alice, environment=row)
    reconcile.log_fetch(row.pk)
