"""A virtual cluster's whole way by REST, on the real API server: template, plan, order, live steps, the way in,
every change, the proof of the end.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from billing.services import rate_set
from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.spec import spec_of
from gpuaas.clusters.tasks import reconcile
from gpuaas.core.clock import now
from gpuaas.metering.models import Meter
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.names import NAMESPACES
from gpuaas.providers.vcluster import names, site
from gpuaas.providers.vcluster.tenancy import gpus_in
from quotas.models import Limit
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Answer, Caller, token_for
from tests.billing.stage import utc
from tests.clusters.stage import RESTING
from tests.factories.quotas import counters_must_match, limits_give
from tests.lab.fixtures import LabSite, until
from tests.providers.vcluster.play import PlayedSite

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]
H100, NAME = "h100-sxm-80gb", "nvidia.com/gpu"
HOME = "/projects/weather-lm/clusters"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def played(lab: LabSite, virtual_lab: Lab) -> Iterator[PlayedSite]:
    inside = virtual_lab.kubeconfig.read_text()
    made = PlayedSite(lab.api(), Api(inside), inside)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def sold(lab: LabSite, as_olga: Actor, project: Project) -> Flavor:
    """One H100, at a price, at a site that was attached as operators do."""
    credentials = {"kubeconfig": lab.kubeconfig}
    there = site_create(actor=as_olga, slug="lab-1", name="Lab", driver="kubernetes", credentials=credentials)
    found = GpuPool.objects.filter(site=there, gpu_type__slug=H100, healthy__gt=0)
    until(lambda: site_probe(there.pk) and found.exists(), "the site's H100 take work")
    flavor = pool_publish(actor=as_olga, pool=found.get())
    capacity_sync(str(there.pk))
    limits_give(project, {f"gpu:{H100}": 4})
    rate_set(actor=as_olga, flavor=flavor, meter=Meter.GPU_HELD, price="2.50", valid_from=utc("2026-01-01"))
    return flavor


def offer(olgas: Caller, flavor: Flavor, host: str) -> None:
    body = {"slug": "virtual", "name": "Virtual", "kind": "kubernetes", "site": "lab-1", "driver": "vcluster"}
    home = olgas.post("/platform/cluster-templates", body).headers["Location"]
    words: dict[str, Any] = {
        "releases": ["1.34.0"],
        "control_plane": {"vcpus": 1, "memory_gib": 2, "disk_gib": 5, "counts": [1]},
        "pools": [{"name": "gpu", "flavors": [flavor.slug], "min": 1, "max": 4}],
        "settings": {"host": host},
    }
    assert olgas.post(f"{home}/versions", {"document": words}).status == 201
    assert olgas.patch(home, {"state": "active", "public": True}).status == 200


def settled(answer: Answer) -> Cluster:
    """What was accepted is carried out by the worker's own task."""
    assert answer.status == 202, answer.json
    key = answer.json["id"]

    def rests() -> bool:
        Cluster.objects.filter(pk=key).update(due_at=now())
        reconcile(key)
        return Cluster.objects.get(pk=key).state in RESTING

    until(rests, "it rests")
    row = Cluster.objects.get(pk=key)
    assert row.state != "failed", row.trouble
    return row


def live(caller: Caller, address: str) -> dict[str, str]:
    """The steps of what was asked for last, as the page and programs see them."""
    return {step["key"]: step["state"] for step in caller.get(address).json["operation"]["steps"]}


def gpus(host: Api, row: Cluster) -> int:
    return gpus_in(site.enforced(host, row.external_name), NAME)


def copies(host: Api, row: Cluster) -> list[Any]:
    path = site.path(row.external_name, "pods")
    found = host.items(path, labelSelector=f"{names.SYNCED}={row.external_name}")
    return [one for one in found if one["spec"].get("nodeName")]


def held(row: Cluster) -> int:
    return sum(row.holdings.filter(meter=Meter.GPU_HELD, ended_at=None).values_list("quantity", flat=True))


def planned(program: Caller, wanted: dict[str, Any]) -> None:
    plan = program.post(f"{HOME}/plan", wanted)
    assert (plan.status, plan.json["fits"], plan.json["quote"]["per_hour"]) == (200, True, "5.00"), plan.json
    assert plan.json["amounts"][f"gpu:{H100}"] == 2
    assert {"Namespace", "ResourceQuota", "StatefulSet"} <= {one["kind"] for one in plan.json["objects"]}
    over = {**wanted, "document": {"pools": {"gpu": {"count": 5}}}}
    assert program.post(HOME, over).status == 400, "the template's own bound"


def entered(program: Caller, address: str) -> None:
    """With a credential of one's own, which the cluster knows."""
    taken = program.post(f"{address}/credential", {"lifetime_seconds": 600})
    assert taken.status == 201, taken.json
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    told = Api(taken.json["document"]).create(REVIEWS, review)
    assert told["status"]["userInfo"]["username"].startswith("system:serviceaccount:")


def lived(program: Caller, address: str, row: Cluster, played: PlayedSite) -> None:
    """Worked in, made larger, put to sleep and woken: what the quota gives, what runs and what is charged."""
    host = played.host
    for number in range(3):
        played.pod(spec_of(row), f"train-{number}", NAME, 1)
    until(lambda: len(copies(host, row)) == 2, "two run, the third waits inside")
    row = settled(program.patch(address, {"pools": {"gpu": 3}}))
    until(lambda: len(copies(host, row)) == 3, "the third has its share")
    assert (gpus(host, row), held(row)) == (3, 3)
    row = settled(program.post(f"{address}/suspend", {}))
    assert (row.state, gpus(host, row), copies(host, row), held(row)) == ("suspended", 0, [], 0)
    row = settled(program.post(f"{address}/resume", {}))
    assert (row.state, gpus(host, row), held(row)) == ("ready", 3, 3)


def test_from_the_template_to_the_proof_that_all_is_gone(
    olga: User, alice: User, charlie: User, project: Project, sold: Flavor, played: PlayedSite
) -> None:
    program, host = Caller(token=token_for(alice, project)), played.host
    offer(Caller(olga), sold, played.virtual.server.removeprefix("https://"))
    wanted = {"template": "virtual", "name": "train", "document": {"pools": {"gpu": {"count": 2}}}}
    planned(program, wanted)

    ordered = program.post(HOME, wanted)
    address, row = str(ordered.headers["Location"]), Cluster.objects.get(pk=ordered.json["id"])
    space = f"{NAMESPACES}/{names.space(row.external_name)}"
    assert not host.find(space), "no request calls the site"
    assert live(program, address)["space"] == "waiting"
    played.clusters[row.external_name] = spec_of(row)
    row = settled(ordered)
    assert set(live(program, address).values()) == {"done"}
    told = program.get(address).json
    assert (told["state"], told["trouble"], len(told["nodes"])) == ("ready", None, 3)
    assert (gpus(host, row), held(row)) == (2, 2)
    made = {one["name"] for one in ledger(program, address, open_only=True)}
    assert names.space(row.external_name) in made
    assert Caller(charlie).get(address).status == 404
    entered(program, address)
    lived(program, address, row, played)

    row = settled(program.delete(address))
    assert row.state == "deleted"
    assert host.find(space) is None
    assert ledger(program, address, open_only=True) == []
    assert {one["name"] for one in ledger(program, address)} >= made
    assert not row.holdings.filter(ended_at=None).exists(), "nothing is charged any more"
    assert Limit.objects.get(project=project, resource=f"gpu:{H100}").used == 0
    counters_must_match()


def ledger(caller: Caller, address: str, *, open_only: bool = False) -> list[Any]:
    query = "?page_size=200" + ("&standing=open" if open_only else "")
    found: list[Any] = caller.get(f"{address}/ledger{query}").json["results"]
    return found
