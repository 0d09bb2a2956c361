"""Request to ready on the lab, against the same objects applied by the same client with nothing around them."""

import statistics
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import connections

from deploy.lab.kubernetes import Lab, existing_kubeconfig
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.core.ids import short
from gpuaas.providers.base import GpuAmount, Member, WorkspaceSpec
from gpuaas.providers.kubeapi import manifests, names
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.ensure import quota_confirmed
from gpuaas.providers.kubeapi.guards import device_classes, install
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import workspace_request
from quotas.models import Limit, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import actor_for
from tests.bench.table import Measured
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.tenants import ProjectFactory, ProjectMembershipFactory, UserFactory
from tests.lab.fixtures import STATE_DIR

WORKSPACES, AT_ONCE = 30, 4
POOL = {"gpuaas.io/pool": "h100-sxm-80gb"}
UNSOLD = ("gpuaas.io/h200", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb")
RESOURCES = ("gpu:h100-sxm-80gb", "vcpu", "memory", "storage")
TIME_LIMIT = 120.0


def measure() -> list[Measured]:
    kubeconfig = lab_kubeconfig()
    api = Api(kubeconfig)
    install(api)
    made: list[str] = []
    try:
        project, actor = _stage(kubeconfig)
        _timed(partial(_ready, actor, project, "warm", made), AT_ONCE)  # pays for what a process does once
        ours, ours_rate = _timed(partial(_ready, actor, project, "ours", made), WORKSPACES)
        floor, floor_rate = _timed(partial(_raw, api, made), WORKSPACES)
    finally:
        for name in made:
            api.delete(f"/api/v1/namespaces/{name}")
    note = f"median {statistics.median(ours):.2f} s against {statistics.median(floor):.2f} s of one"
    what = f"request to ready, {WORKSPACES} workspaces, {AT_ONCE} at once"
    return [Measured(what, "/s", ours_rate, floor_rate, "same objects, same client, raw", note=note)]


def lab_kubeconfig() -> str:
    given = existing_kubeconfig()
    if given is not None:
        return given.read_text()
    lab = Lab(state_dir=STATE_DIR)
    lab.up()
    return lab.kubeconfig.read_text()


def _stage(kubeconfig: str) -> tuple[Project, Actor]:
    site: Site = SiteFactory.create(
        slug="bench-lab", driver="kubernetes", credentials=encrypt_json({"kubeconfig": kubeconfig})
    )
    pool = GpuPoolFactory.create(site=site, capacity=16, healthy=16, largest_block=8, selector=POOL)
    FlavorFactory.create(pool=pool, slug="bench-h100.1")
    for name in UNSOLD:
        GpuPoolFactory.create(site=site, gpu_type__slug=name, resource_name=name)
    project = ProjectFactory.create(slug="bench-ready")
    user = UserFactory.create(username="bench-ready")
    ProjectMembershipFactory.create(project=project, user=user, role="admin")
    for resource in RESOURCES:
        Limit.objects.create(project=project, resource=resource, hard=None)
        Limit.objects.create(organization=project.organization, resource=resource, hard=None)
        SiteCapacity.objects.create(site=site, resource=resource, hard=None)
    return project, actor_for(user=user)


def _timed(make: Callable[[int], None], count: int) -> tuple[list[float], float]:
    """Seconds of each, and how many a second over all."""

    def one(number: int) -> float:
        began = time.monotonic()
        try:
            make(number)
        finally:
            connections.close_all()
        return time.monotonic() - began

    with ThreadPoolExecutor(AT_ONCE) as pool:
        began = time.monotonic()
        seconds = list(pool.map(one, range(count)))
        return seconds, count / (time.monotonic() - began)


def _ready(actor: Actor, project: Project, round_name: str, made: list[str], number: int) -> None:
    """As a worker does it that hears of the workspace at once, and again when it is due."""
    name = f"{round_name}-{number}"
    workspace = workspace_request(
        actor=actor, project=project, name=name, items=[("bench-h100.1", 1)], storage_gib=10
    )
    made.append(workspace.external_name)
    end = time.monotonic() + TIME_LIMIT
    while True:
        run(workspace.pk)
        row = Workspace.objects.get(pk=workspace.pk)
        if row.state == "ready":
            return
        if row.state == "failed" or row.due_at is None or time.monotonic() > end:
            raise RuntimeError(f"{name} is {row.state}: {row.failure or row.conditions}")
        time.sleep(max((row.due_at - clock.now()).total_seconds(), 0))


def _raw(api: Api, made: list[str], number: int) -> None:
    """The objects of the driver's steps in their order, over connections that are kept; the site's guards stand already."""
    key = uuid.uuid4()
    spec = WorkspaceSpec(
        id=key,
        external_name=f"gpu-{short(key)}-raw-{number}",
        project_slug="bench-ready",
        organization_slug="bench",
        gpus=(GpuAmount("nvidia.com/gpu", 1, POOL),),
        vcpus=16,
        memory_gib=180,
        storage_gib=10,
        members=(Member("u-bench", "bench", "admin"),),
        closed=UNSOLD,
    )
    space = f"/api/v1/namespaces/{spec.external_name}"
    made.append(spec.external_name)
    quota = manifests.quota(spec, device_classes(api))
    api.apply("/api/v1/namespaces", manifests.namespace(spec))
    api.apply(f"{space}/resourcequotas", quota)
    api.apply(f"{space}/limitranges", manifests.limit_range(spec))
    for policy in manifests.network_policies(spec):
        path = f"/apis/networking.k8s.io/v1/namespaces/{spec.external_name}/networkpolicies"
        api.apply(path, policy)
    while not quota_confirmed(api.get(f"{space}/resourcequotas/{names.QUOTA}"), quota["spec"]["hard"]).done:
        time.sleep(0.02)
    (member,) = spec.members
    api.apply(f"{space}/serviceaccounts", manifests.service_account(spec, member))
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{spec.external_name}/rolebindings"
    api.apply(bindings, manifests.role_binding(spec, member))
