"""Cards whose monitoring says that they are sick are sold no more, at once, in the site's own way of counting."""

import pytest

from gpuaas.catalog.models import GpuPool, Node, Site, SiteRound
from gpuaas.catalog.services import site_health, site_probe
from gpuaas.catalog.services.health import inventory_with_health
from gpuaas.catalog.states import RoundKind
from gpuaas.core import clock
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.providers.base import DeviceKind, Inventory, ObservedNode, ObservedPool
from gpuaas.providers.sandbox.dials import dials_set, fault_set
from gpuaas.providers.sandbox.fleet import node_set
from quotas.models import SiteCapacity
from quotas.tasks import capacity_sync


@pytest.fixture
def probed(attached: Site) -> Site:
    assert site_probe(attached.pk)
    return attached


def pool(slug: str) -> GpuPool:
    return GpuPool.objects.get(gpu_type__slug=slug)


def test_a_sick_card_lowers_what_can_be_sold_at_once(probed: Site) -> None:
    fault_set(probed.pk, area="sick", name="h100-01", found={"": 3})
    assert site_health(probed.pk)
    probed.refresh_from_db()
    assert probed.due_at is not None
    assert probed.due_at <= clock.now(), "the probe does not wait for its turn"
    version = probed.version
    site_probe(probed.pk)
    assert (pool("h100-sxm-80gb").capacity, pool("h100-sxm-80gb").healthy) == (16, 13)
    assert Node.objects.get(name="h100-01").unhealthy == 3
    capacity_sync(str(probed.pk))
    assert SiteCapacity.objects.get(resource="gpu:h100-sxm-80gb").hard == 13
    probed.refresh_from_db()
    assert probed.version == version + 1
    told = {row.type: row for row in conditions_read(Node.objects.get(name="h100-01").checks)}
    assert told["CardsHealthy"].status == Status.FALSE
    assert told["CardsHealthy"].remedy
    assert told["GpuDriver"].status == Status.TRUE


def test_slices_are_counted_by_their_profile(probed: Site) -> None:
    fault_set(probed.pk, area="sick", name="slice-01", found={"1g.5gb": 2})
    site_health(probed.pk)
    site_probe(probed.pk)
    assert pool("a100-40gb-mig-1g.5gb").healthy == 12


def test_what_is_well_again_is_sold_again(probed: Site) -> None:
    fault_set(probed.pk, area="sick", name="h100-01", found={"": 3})
    site_health(probed.pk)
    site_probe(probed.pk)
    fault_set(probed.pk, area="sick", name="h100-01")
    site_health(probed.pk)
    site_probe(probed.pk)
    assert pool("h100-sxm-80gb").healthy == 16


def test_silence_heals_nothing(probed: Site) -> None:
    fault_set(probed.pk, area="sick", name="h100-01", found={"": 3})
    site_health(probed.pk)
    dials_set(probed.pk, down=True)
    assert not site_health(probed.pk)
    dials_set(probed.pk, down=False)
    node_set(probed.pk, name="h100-01", ready=False)  # its exporter does not answer
    fault_set(probed.pk, area="sick", name="h100-01")
    site_health(probed.pk)
    node_set(probed.pk, name="h100-01")
    site_probe(probed.pk)
    assert pool("h100-sxm-80gb").healthy == 13


def test_a_quiet_round_wakes_nobody(probed: Site) -> None:
    site_health(probed.pk)
    site_probe(probed.pk)
    probed.refresh_from_db()
    due, version = probed.due_at, probed.version
    site_health(probed.pk)
    site_probe(probed.pk)
    probed.refresh_from_db()
    assert probed.version == version
    assert due is not None
    assert probed.due_at is not None
    assert probed.due_at >= due


def test_nodes_that_are_gone_are_forgotten(probed: Site) -> None:
    site_health(probed.pk)
    Node.objects.filter(name="h100-01").delete()
    site_health(probed.pk)
    found = SiteRound.objects.get(site=probed, kind=RoundKind.HEALTH).found
    assert "h100-01" not in found
    assert "h100-02" in found


@pytest.mark.parametrize(
    ("sharing", "profile", "capacity", "unhealthy", "sick", "expected"),
    [
        ("whole", "", 8, 0, {"": 1}, 1),
        ("whole", "", 8, 1, {"": 1}, 1),  # the device plugin has taken the same card away
        ("whole", "", 8, 2, {"": 1}, 2),
        ("whole", "", 8, 0, {"": 9}, 8),
        ("mig", "1g.5gb", 14, 0, {"": 1, "1g.5gb": 7, "3g.20gb": 2}, 7),
        ("mig", "2g.10gb", 3, 0, {"1g.5gb": 7}, 0),
        ("shared", "", 16, 0, {"": 1}, 4),  # four shares a card
        ("dra", "", 8, 0, {"": 2}, 2),
    ],
)
def test_every_way_of_counting(
    attached: Site,
    sharing: str,
    profile: str,
    capacity: int,
    unhealthy: int,
    sick: dict[str, int],
    expected: int,
) -> None:
    check = {"type": "CardsHealthy", "status": "False", "reason": "Errors", "message": "XID 79."}
    said = {"n1": {"cards": 4, "sick": sick, "check": check}}
    SiteRound.objects.create(site=attached, kind=RoundKind.HEALTH, found=said)
    kind = DeviceKind("k", "K", "K", 40, sharing, mig_profile=profile)
    node = ObservedNode("n1", "k", capacity, 0, 64, 512, unhealthy=unhealthy)
    inventory = Inventory("1", (ObservedPool(kind, "nvidia.com/gpu"),), (node,))
    merged = inventory_with_health(attached, inventory).nodes[0]
    assert merged.unhealthy == expected
    assert [each.type for each in merged.checks] == ["CardsHealthy"]
