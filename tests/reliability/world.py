"""`python -m tests.reliability.world`, in the environment of a portal: what it needs, who uses GPUs at the sites, and whether
all is whole again. Without a command: the data, as the seed of a portal."""

import json
import os
import random
import sys
import time
from functools import partial
from pathlib import Path

import django

SITES = {"ber-1": "sandbox", "muc-1": "sandbox", "ham-1": "sandbox-cloud", "dre-1": "sandbox"}
SICK = "dre-1"  # the site that answers slowly
NODES = 24  # of 8 GPUs, at each
TIGHT = "downscale"  # the project that is refused some of what it asks for
TIGHT_GPUS = 12
POD_SECONDS = (1, 6)
PROJECTS = {"weather-lm": "alice", TIGHT: "alice", "protein-fold": "charlie"}
UNITS = ("vcpu", "memory", "storage")


def folder() -> Path:
    return Path(os.environ["GPUAAS_DEMO_FOLDER"])


def stage() -> None:
    """People, sites, what they sell, limits, and a token for each project."""
    from deploy.embedded import offers, seed
    from gpuaas.catalog.models import Flavor
    from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed

    seed.people()
    racks = (Rack("h100", NODES, H100, 8, vcpus=208, memory_gib=2048),)
    for slug, driver in SITES.items():
        fill = partial(fleet_seed, slug=slug, racks=racks)
        seed.attach(slug, slug, driver=driver, credentials={}, before_probe=fill)
    offers.offer(seed.last_month())
    seed.clusters()
    limits()
    flavors = dict(Flavor.objects.values_list("pool__site__slug", "slug"))
    (folder() / "world.json").write_text(json.dumps({"tokens": tokens(), "flavors": flavors}))


def limits() -> None:
    from gpuaas.catalog.models import GpuType
    from quotas.resources import gpu_resource
    from quotas.services import limit_set
    from tenants.actors import SYSTEM
    from tenants.models import Project

    gpus = [gpu_resource(slug) for slug in GpuType.objects.values_list("slug", flat=True)]
    for project in Project.objects.select_related("organization"):
        for resource in (*gpus, *UNITS):
            tight = TIGHT_GPUS if project.slug == TIGHT and resource in gpus else None
            limit_set(actor=SYSTEM, project=project, resource=resource, hard=tight)
            limit_set(actor=SYSTEM, organization=project.organization, resource=resource, hard=None)


def tokens() -> dict[str, str]:
    from datetime import timedelta

    from gpuaas.core import clock
    from tenants.models import Project, User
    from tenants.roles import TOKEN_SCOPES
    from tenants.selectors import actor_for
    from tenants.services import token_create

    made = {}
    for slug, username in PROJECTS.items():
        actor = actor_for(user=User.objects.get(username=username))
        project, ends = Project.objects.get(slug=slug), clock.now() + timedelta(days=1)
        scopes = [scope.value for scope in TOKEN_SCOPES]
        _, made[slug] = token_create(
            actor=actor, project=project, name="load", scopes=scopes, expires_at=ends
        )
    return made


def pods(seed: str) -> None:
    """The tenants' jobs: pods that start in what is ready and end seconds later, until this is ended. A site or a database
    that is away is tried again."""
    from django.db import Error, connection

    from gpuaas.core.errors import GpuaasError
    from gpuaas.providers.sandbox.models import SandboxNamespace
    from gpuaas.providers.sandbox.pods import pod_create

    dice, number = random.Random(seed), 0
    while True:
        number += 1
        time.sleep(dice.uniform(0.1, 0.4))  # the pace of a tenant
        try:
            rooms = SandboxNamespace.objects.filter(gone_at=None, suspended=False, owner__isnull=False)
            rooms = rooms.filter(members__isnull=False, site__slug__in=("ber-1", "muc-1"))
            found = sorted(rooms.distinct().values_list("site_id", "name"))
            if found:
                site_id, name = dice.choice(found)
                pod_create(site_id, name, f"job-{number}", 1, dice.randint(*POD_SECONDS))
        except (GpuaasError, Error):
            connection.close()


def settled(seconds: str) -> None:
    """Waits until nothing is wrong, so long at most, and writes down what still is and how long things took. What may never
    be wrong ends the wait."""
    from tests.reliability import audit

    expected = json.loads((folder() / "expected.json").read_text())
    end, began = time.monotonic() + float(seconds), time.monotonic()
    while found := audit.never(expected) + audit.wrong(expected):
        if audit.never(expected) or time.monotonic() > end:
            break
        time.sleep(0.5)  # between two looks
    took = {"settled": round(time.monotonic() - began, 1), **audit.figures()}
    (folder() / "settled.json").write_text(json.dumps({"wrong": found, "took": took}))


COMMANDS = {"pods": pods, "settled": settled}

if __name__ == "__main__":
    django.setup()
    if sys.argv[1:]:
        COMMANDS[sys.argv[1]](sys.argv[2])
    else:
        stage()
