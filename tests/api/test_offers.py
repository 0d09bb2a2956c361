"""Offers by attributes, requests by attributes, and what operators make of a GPU type, over HTTP."""

from typing import Any

import pytest

from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Node, Site
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from quotas.models import SiteCapacity
from tenants.models import Project
from tests.api.caller import Caller
from tests.factories.catalog import FlavorFactory
from tests.factories.quotas import counters_must_match, limits_give

HOME = "/projects/weather-lm/workspaces"


@pytest.fixture
def priced(olgas: Caller, site: Site) -> Site:
    """H100 dearer by the GPU than L40S, and eight H100 at once cheaper than one by one."""
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    FlavorFactory.create(pool=pool, slug="h100.8", name="8 × H100", gpus=8, vcpus=128, memory_gib=1440)
    for flavor, price in (("h100.1", "2.40"), ("h100.8", "2.00"), ("l40s.1", "0.90")):
        made = olgas.post("/platform/rates", {"flavor": flavor, "meter": "gpu_held", "price": price})
        assert made.status == 201
    return site


def ask(caller: Caller, *items: dict[str, Any], name: str = "train") -> Any:
    return caller.post(HOME, {"name": name, "items": list(items)})


def held(answer: Any) -> dict[str, int]:
    assert answer.status == 202, answer.json
    return {item["flavor"]: item["count"] for item in answer.json["items"]}


def test_the_cheapest_that_fits_is_chosen_and_told(alices: Caller, priced: Site, limits: None) -> None:
    del priced, limits
    assert held(ask(alices, {"match": {}, "gpus": 2}, name="any")) == {"l40s.1": 2}
    assert held(ask(alices, {"match": {"memory_gib_min": 80}, "gpus": 2}, name="big")) == {"h100.1": 2}
    eight = ask(alices, {"match": {"compute_capability_min": "9.0"}, "gpus": 8}, name="eight")
    assert held(eight) == {"h100.8": 1}
    counters_must_match()


def test_what_is_full_is_passed_over(alices: Caller, priced: Site, project: Project) -> None:
    """The site has eight L40S: for twelve GPUs the dearer ones are chosen."""
    limits_give(project, {"gpu:h100-sxm-80gb": 100, "gpu:l40s-48gb": 100})
    wanted = {"match": {"memory_gib_min": 40}, "gpus": 12}
    assert held(ask(alices, wanted)) == {"h100.1": 12}
    SiteCapacity.objects.filter(site=priced).update(hard=0)
    refused = ask(alices, wanted, name="more")
    assert (refused.status, refused.code) == (409, "no_capacity")


def test_named_and_described_ones_are_at_one_site(alices: Caller, priced: Site, limits: None) -> None:
    del priced, limits
    both = ask(alices, {"flavor": "h100.1", "count": 1}, {"match": {"memory_gib_min": 80}, "gpus": 1})
    assert held(both) == {"h100.1": 2}
    elsewhere = ask(
        alices, {"flavor": "h100.1", "count": 1}, {"match": {"site": "elsewhere"}, "gpus": 1}, name="far"
    )
    assert elsewhere.status == 400
    assert "one site" in elsewhere.error["message"]


def test_a_preview_tells_what_would_be_chosen(alices: Caller, priced: Site, limits: None) -> None:
    del priced, limits
    said = alices.post(f"{HOME}/preview", {"items": [{"match": {"interconnect": "nvlink"}, "gpus": 16}]})
    assert said.json["items"] == [{"flavor": "h100.8", "count": 2}]
    assert said.json["quote"]["per_hour"] == "32.00"
    assert not Workspace.objects.exists()


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"flavor": "h100.1"},
        {"match": {}},
        {"gpus": 2},
        {"flavor": "h100.1", "count": 1, "gpus": 1},
        {"flavor": "h100.1", "count": 1, "match": {}},
        {"match": {"memory_gib_min": "80"}, "gpus": 1},
        {"match": {"memory_gib_min": -1}, "gpus": 1},
        {"match": {"compute_capability_min": "nine"}, "gpus": 1},
        {"match": {"ecc": "yes"}, "gpus": 1},
        {"match": {"speed": 1}, "gpus": 1},
        {"match": {"memory_gib_min": 500}, "gpus": 1},
        {"match": [], "gpus": 1},
        {"match": {}, "gpus": 0},
        {"match": {}, "gpus": 2.0},
    ],
)
def test_what_cannot_be_is_refused_beside_its_field(
    item: dict[str, Any], alices: Caller, priced: Site, limits: None
) -> None:
    del priced, limits
    refused = ask(alices, item)
    assert refused.status == 400
    assert any(field.startswith("items") for field in refused.error["fields"])
    assert not Workspace.objects.exists()


def test_an_architecture_can_be_asked_for(alices: Caller, priced: Site, limits: None) -> None:
    """The L40S are cheaper, and beside another processor; nothing is guessed where a site does not say."""
    del limits
    GpuPool.objects.filter(site=priced, gpu_type__slug="l40s-48gb").update(arch="arm64")
    assert held(ask(alices, {"match": {"arch": "arm64"}, "gpus": 2}, name="arm")) == {"l40s.1": 2}
    assert ask(alices, {"match": {"arch": "amd64"}, "gpus": 2}, name="intel").status == 400
    GpuPool.objects.filter(site=priced, gpu_type__slug="h100-sxm-80gb").update(arch="amd64")
    assert held(ask(alices, {"match": {"arch": "amd64"}, "gpus": 2}, name="intel")) == {"h100.1": 2}
    rows = alices.get("/flavors?arch=arm64").json["results"]
    assert [(row["slug"], row["arch"]) for row in rows] == [("l40s.1", "arm64")]
    assert "nodes of the architecture arm64" in rows[0]["gives"]


def test_an_outsider_is_told_nothing_by_a_match(charlies: Caller, priced: Site) -> None:
    del priced
    assert ask(charlies, {"match": {}, "gpus": 1}).status == 404


def test_offers_are_found_by_what_their_nodes_are(alices: Caller, site: Site) -> None:
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    GpuType.objects.filter(slug="l40s-48gb").update(ecc=True, mig_capable=False, compute_capability="8.9")
    Node.objects.create(
        site=site,
        pool=pool,
        name="h100-1",
        capacity=8,
        rack="r1",
        numa="single-numa-node",
        nvlink_domain="c1",
        observed_at=clock.now(),
    )

    def slugs(query: str) -> list[str]:
        found = alices.get(f"/flavors?{query}")
        assert found.status == 200, found.json
        return [row["slug"] for row in found.json["results"]]

    for name in ("same_numa", "same_rack", "nvlink_domain"):
        assert slugs(f"{name}=true") == ["h100.1"], name
        assert slugs(f"{name}=false") == ["l40s.1"], name
    assert slugs("ecc=true") == slugs("mig_capable=false") == ["l40s.1"]
    assert slugs("memory_gib_min=80") == slugs("compute_capability_min=9.0") == ["h100.1"]
    assert slugs("") == ["h100.1", "l40s.1"], "a switch that is left out says nothing"
    assert slugs("whole_node=true") == []
    (row,) = alices.get("/flavors?same_numa=true").json["results"]
    assert row["gives"][-1] == "nodes are joined by NVLink"
    for wrong in ("ecc=1", "ecc=", "same_rack=yes", "memory_gib_min=x", "compute_capability_min=9."):
        assert alices.get(f"/flavors?{wrong}").status == 400, wrong


FLAVOR = {
    "site": "ber-1",
    "gpu_type": "h100-sxm-80gb",
    "slug": "h100.2",
    "name": "Two H100",
    "gpus": 2,
    "vcpus": 32,
    "memory_gib": 256,
}


def test_an_operator_makes_and_sells_a_flavor(olgas: Caller, alices: Caller, site: Site) -> None:
    del site
    GpuType.objects.update(state="draft")
    made = olgas.post("/platform/flavors", {**FLAVOR, "sysctls": ["kernel.sem"]})
    assert made.status == 201, made.json
    assert (made.json["state"], made.json["sysctls"]) == ("draft", ["kernel.sem"])
    meant = {"state": "active", "without_price": True}
    assert olgas.patch("/platform/flavors/h100.2", meant).code == "conflict"
    sold = olgas.patch("/platform/gpu-types/h100-sxm-80gb", {"state": "active", "name": "H100"})
    assert (sold.json["state"], sold.json["name"]) == ("active", "H100")
    unpriced = olgas.patch("/platform/flavors/h100.2", {"state": "active"})
    assert (unpriced.status, list(unpriced.error["fields"])) == (400, ["without_price"])
    assert Flavor.objects.get(slug="h100.2").state == "draft"
    meant = {"state": "active", "without_price": True}
    assert olgas.patch("/platform/flavors/h100.2", meant).json["state"] == "active"
    assert olgas.patch("/platform/flavors/h100.2", {"state": "retired"}).json["state"] == "retired"
    price = {"flavor": "h100.2", "meter": "gpu_allocated", "price": "2"}
    assert olgas.post("/platform/rates", price).status == 201
    assert olgas.patch("/platform/flavors/h100.2", {"state": "active"}).json["state"] == "active"
    assert "h100.2" in {row["slug"] for row in alices.get("/flavors").json["results"]}
    assert olgas.patch("/platform/gpu-types/h100-sxm-80gb", {"state": "retired"}).status == 200
    assert not alices.get("/flavors").json["results"]
    assert olgas.patch("/platform/gpu-types/none", {"state": "active"}).status == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpu_type": "none"}, "gpu_type"),
        ({"site": "none"}, "gpu_type"),
        ({"slug": "h100.1"}, "slug"),
        ({"profile": "hpc"}, "profile"),
        ({"exclusive_cpus": True}, "exclusive_cpus"),
        ({"exclusive_cpus": "yes"}, "exclusive_cpus"),
        ({"hugepages_size": "1Gi"}, "hugepages_gib"),
        ({"hugepages_size": "1Gi", "hugepages_gib": 8}, "hugepages_gib"),
        ({"sysctls": ["vm.overcommit_memory"]}, "sysctls"),
        ({"whole_node": True}, "whole_node"),
        ({"vcpus": 0}, "vcpus"),
    ],
)
def test_a_flavor_that_cannot_be_is_refused(
    change: dict[str, Any], field: str, olgas: Caller, site: Site
) -> None:
    del site
    refused = olgas.post("/platform/flavors", {**FLAVOR, **change})
    assert refused.status == 400
    assert field in refused.error["fields"]
    assert Flavor.objects.count() == 2


def test_pods_may_be_asked_to_be_near_each_other(alices: Caller, limits: None, project: Project) -> None:
    del limits, project
    asked = {"name": "near", "items": [{"flavor": "h100.1", "count": 1}]}
    assert alices.post(HOME, {**asked, "placement": "moon"}).status == 400
    made = alices.post(HOME, {**asked, "placement": "rack"})
    assert (made.status, made.json["placement"]) == (202, "rack")
    limits_give(Project.objects.get(slug="weather-lm"))
    assert alices.post(HOME, {**asked, "name": "far"}).json["placement"] == ""
