"""Inventory and observation on the real control plane."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import yaml

from gpuaas.providers.base import WorkspaceRef
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import ALICE, Room

pytestmark = pytest.mark.lab

POOLS = {
    "h100-sxm-80gb": ("nvidia.com/gpu", "whole", 16),
    "a100-sxm-40gb": ("nvidia.com/gpu", "whole", 2),
    "a100-40gb-mig-1g.5gb": ("nvidia.com/mig-1g.5gb", "mig", 14),
    "a100-40gb-mig-3g.20gb": ("nvidia.com/mig-3g.20gb", "mig", 4),
    "l40s-48gb-shared-1of4": ("nvidia.com/gpu.shared", "shared", 16),
    "h200-141gb-dra": ("gpuaas.io/h200", "dra", 8),
}


def test_probe_finds_every_kind_of_device(lab: LabSite) -> None:
    seen = lab.driver().probe()
    assert seen.server_version.startswith("v1.")
    assert {pool.kind.slug: (pool.resource_name, pool.kind.sharing) for pool in seen.pools} == {
        slug: (resource, sharing) for slug, (resource, sharing, _) in POOLS.items()
    }
    for slug, (_, _, capacity) in POOLS.items():
        assert sum(node.capacity for node in seen.nodes if node.kind_slug == slug) == capacity
    assert [node.name for node in seen.nodes if not node.kind_slug] == ["cpu-1"]
    assert all("gpuaas.io/pool" in pool.selector for pool in seen.pools)


def test_probe_counts_what_pods_hold(lab: LabSite, room: Room) -> None:
    room.tenant.create(room.path("pods"), pod("two", {"nvidia.com/gpu": "2"}))
    node = room.run_to("two", "Running")["spec"]["nodeName"]
    seen = next(each for each in lab.driver().probe().nodes if each.name == node)
    assert 2 <= seen.allocated <= 8
    assert seen.free == 8 - seen.allocated


def test_a_refused_job_says_so_in_words(room: Room) -> None:
    template = pod("unnamed", {"nvidia.com/gpu": "3"})["spec"] | {"restartPolicy": "Never"}
    job = {"metadata": {"name": "wide"}, "spec": {"template": {"spec": template}}}
    room.tenant.create(room.path("jobs", "/apis/batch/v1"), job)

    def words() -> str | None:
        consumers = room.driver.observe(room.ref).consumers
        return next((each.waiting_for for each in consumers if each.name == "Job/wide"), None)

    assert "quota is used up" in until(words, "the refusal")


def test_a_kubeconfig_is_short_lived_and_names_its_namespace(room: Room) -> None:
    before = datetime.now(UTC)
    for asked, given in ((1, 10), (60, 60), (60 * 24 * 365, 60 * 24)):
        access = room.driver.issue_access(room.ref, ALICE, lifetime=timedelta(minutes=asked))
        assert abs(access.expires_at - before - timedelta(minutes=given)) < timedelta(seconds=30)
        context = yaml.safe_load(access.document)["contexts"][0]["context"]
        assert context["namespace"] == room.spec.external_name


def test_a_workspace_of_another_id_is_not_seen(room: Room) -> None:
    assert not room.driver.observe(WorkspaceRef(uuid4(), room.spec.external_name)).exists
