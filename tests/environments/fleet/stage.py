"""Two hundred environments in seven workspaces of three projects, of two organizations, on a real control plane.

One node pool is sold and lent, and charged by what is held; the other one is charged by what ran. Both are exactly as large as what is
sold of them and a few GPUs that are lent, so that the last buyers to come push borrowers out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import flavor_create, flavor_publish, pool_publish, site_create, site_probe
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.environments.services import environment_create, kind_create
from gpuaas.environments.spec import FOR_SPEC, spec_of
from gpuaas.metering.models import Meter
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs.kubernetes import volume_for
from tests.environments.fleet.reckoning import Priced
from tests.environments.stage import DOCUMENT
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.test_shares_lab import node

A10, L4, LENT = "a10-24gb", "l4-24gb", "a10-24gb.spot"
A10_NODE, L4_NODE = 56, 48
MICRO = 10**6
# millionths of the currency per unit and hour: so high that a second of one GPU is some cents
PRICES: dict[tuple[str, Meter], str] = {
    (f"{A10}.1", Meter.GPU_HELD): "291.234567",
    (f"{L4}.1", Meter.GPU_ALLOCATED): "147.111113",
    (LENT, Meter.GPU_ALLOCATED): "133.333331",
    ("", Meter.VCPU_HELD): "11.234567",
    ("", Meter.STORAGE_HELD): "3.141593",
    ("", Meter.TOKENS_IN): "600.000001",
    ("", Meter.TOKENS_OUT): "1800.123457",
}
LATER: dict[tuple[str, Meter], str] = {
    (f"{A10}.1", Meter.GPU_HELD): "295.000003",
    (LENT, Meter.GPU_ALLOCATED): "119.999999",
}
SIZES = (1, 0, 1, 2, 0, 1)  # GPUs, in turn
STORAGE_GIB = 50


@dataclass(frozen=True)
class Wanted:
    name: str
    flavor: str
    gpus: int
    environments: int


ALPHA, BETA, GAMMA = (
    Wanted("alpha", f"{A10}.1", 30, 36),
    Wanted("beta", f"{A10}.1", 30, 36),
    Wanted("gamma", f"{A10}.1", 20, 24),
)
DELTA, BORROWED = Wanted("delta", f"{L4}.1", 24, 28), Wanted("borrowed", LENT, 20, 20)
OMEGA, PSI = Wanted("omega", f"{A10}.1", 24, 28), Wanted("psi", f"{L4}.1", 24, 28)
ALL = (ALPHA, BETA, GAMMA, DELTA, BORROWED, OMEGA, PSI)

# kinds by what is special of them, and where such an environment is: the workspace and its number there
CLUSTERS = {("alpha", 0), ("alpha", 6)}
ENDPOINTS = {("delta", 0), ("delta", 2)}


@dataclass
class Fleet:
    """prices: all that were set, with the second from which each holds."""

    site: Site
    api: Api
    prices: list[Priced]
    actors: dict[str, Actor]
    workspaces: dict[str, Workspace]

    def of(self, wanted: Wanted, *numbers: int) -> list[Environment]:
        """The environments of a workspace in their order, or those of these numbers."""
        rows = list(Environment.objects.filter(workspace=self.workspaces[wanted.name]).order_by("pk"))
        return [rows[number] for number in numbers] if numbers else rows

    def order(self, wanted: Wanted, numbers: Iterable[int]) -> None:
        workspace, actor = self.workspaces[wanted.name], self.actors[wanted.name]
        sizes = list(islice(cycle((1,) if wanted is BORROWED else SIZES), wanted.environments))
        for number in numbers:
            place = (wanted.name, number)
            about: dict[str, Any] = {"kind": "notebook", "gpus": sizes[number]}
            if place in CLUSTERS:
                about = {"kind": "cluster", "gpus": 0, "workers": 1, "worker_gpus": sizes[number]}
            if place in ENDPOINTS:
                about = {"kind": f"endpoint-{number}", "gpus": sizes[number]}
            row = environment_create(actor=actor, workspace=workspace, name=f"env-{number:02}", **about)
            found = Environment.objects.select_related(*FOR_SPEC).get(pk=row.pk)
            self.api.create("/api/v1/persistentvolumes", volume_for(spec_of(found)))

    def reprice(self, prices: dict[tuple[str, Meter], str], olga: Actor) -> None:
        for (slug, meter), price in prices.items():
            flavor = Flavor.objects.get(slug=slug) if slug else None
            made = rate_set(actor=olga, flavor=flavor, meter=meter, price=price)
            self.prices.append(Priced(slug, meter.value, int(Decimal(price) * MICRO), made.valid_from))


def look_again(rows: Iterable[Environment]) -> None:
    """Now, and not within a minute: something that the portal has not done has happened to them."""
    Environment.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=clock.now())


def settled(rows: Sequence[Environment], state: str) -> None:
    keys = [row.pk for row in rows]
    others = Environment.objects.filter(pk__in=keys).exclude(state=state)
    until(lambda: not others.exists(), f"{len(keys)} environments are {state}")


def workspaces_settled(rows: Iterable[Workspace], state: str) -> None:
    others = Workspace.objects.filter(pk__in=[row.pk for row in rows]).exclude(state=state)
    until(lambda: not others.exists(), f"workspaces are {state}")


def fleet_stage(api: Api, kubeconfig: str, olga: Actor, owners: dict[str, tuple[Actor, Project]]) -> Fleet:
    """owners: of each workspace, by its name. All are ready, and nothing is in them."""
    about = {"nvidia.com/gpu.memory": "23028"}
    for name in ("a10-1", "a10-2"):
        amounts = {"nvidia.com/gpu": str(A10_NODE), "cpu": "512", "memory": "4Ti"}
        api.create("/api/v1/nodes", node(name, amounts, "NVIDIA-A10", "a10", **about))
    amounts = {"nvidia.com/gpu": str(L4_NODE), "cpu": "512", "memory": "4Ti"}
    api.create("/api/v1/nodes", node("l4-1", amounts, "NVIDIA-L4", "l4", **about))
    given = {"credentials": {"kubeconfig": kubeconfig}, "options": {"environments_direct": True}}
    site = site_create(actor=olga, slug="lab-1", name="Lab", driver="kubernetes", **given)  # type: ignore[arg-type]  # of a test
    fleet = Fleet(site, api, [], {name: actor for name, (actor, _) in owners.items()}, {})
    _sell(site, olga)
    fleet.reprice(PRICES, olga)
    limits = {f"gpu:{A10}": 200, f"spot:{A10}": 40, f"gpu:{L4}": 96}
    for project in {project for _, project in owners.values()}:
        limits_give(project, limits)
    for wanted in ALL:
        actor, project = owners[wanted.name]
        asked = {"items": [(wanted.flavor, wanted.gpus)], "storage_gib": STORAGE_GIB}
        fleet.workspaces[wanted.name] = workspace_request(
            actor=actor,
            project=project,
            name=wanted.name,
            **asked,  # type: ignore[arg-type]  # of a test
        )
    return fleet


def _sell(site: Site, olga: Actor) -> None:
    pools: dict[str, Callable[[], bool]] = {}
    for slug, count in ((A10, 2 * A10_NODE), (L4, L4_NODE)):
        found = GpuPool.objects.filter(site=site, gpu_type__slug=slug, healthy=count)
        pools[slug] = found.exists
    until(lambda: site_probe(site.pk) and all(is_whole() for is_whole in pools.values()), "nodes take work")
    for slug in pools:
        pool = GpuPool.objects.select_related("site", "gpu_type").get(site=site, gpu_type__slug=slug)
        sold = pool_publish(actor=olga, pool=pool)
        assert sold.slug == f"{slug}.1"
        if slug == A10:
            sizes = {"vcpus": sold.vcpus, "memory_gib": sold.memory_gib}
            lent = flavor_create(
                actor=olga, pool=pool, slug=LENT, name="A10, spot", price_class="spot", **sizes
            )
            flavor_publish(actor=olga, flavor=lent)
    capacity_sync(str(site.pk))


def kinds_make(olga: Actor, ports: dict[int, int]) -> None:
    """ports: of the endpoints' servers, by the number of the environment."""
    plain = {**DOCUMENT, "vcpus": 1, "memory_gib": 1, "home_gib": 1}
    workers = {"most": 1, "gpus": 1, "vcpus": 1, "memory_gib": 1}
    kind_create(actor=olga, slug="notebook", name="Notebook", document=plain)
    kind_create(actor=olga, slug="cluster", name="Cluster", document={**plain, "workers": workers})
    for number, port in ports.items():
        served = {**plain, "port": port, "metrics": "vllm"}
        kind_create(actor=olga, slug=f"endpoint-{number}", name="Endpoint", document=served)
