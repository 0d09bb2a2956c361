"""What Placement has becomes nodes and pools: each device once, as free, held, out of order, or not understood."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given as given_some
from hypothesis import strategies as st

from gpuaas.core.conditions import Status
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import GpuAmount, Inventory, ObservedNode, SoldPool
from gpuaas.providers.openstack.classes import Classes
from gpuaas.providers.openstack.inventory import inventory_of
from gpuaas.providers.openstack.limits import wanted_limits
from gpuaas.providers.openstack.names import limit_name
from gpuaas.providers.openstack.placement import Provider, stock_of
from gpuaas.providers.openstack.preflight import devices
from gpuaas.providers.openstack.servers import gpus_of
from gpuaas.providers.openstack.settings import options_check
from tests.providers.openstack.conftest import spec_of

H100, A16, VGPU, L40S = "CUSTOM_PCI_10DE_2330", "CUSTOM_PCI_10DE_25B7", "VGPU", "CUSTOM_GPU_L40S"
ALIASES = {H100: "h100", A16: "a16vf"}
WHOLE = "h100-sxm-80gb"


def card(
    name: str = H100, total: int = 1, *, root: str = "host", traits: frozenset[str] = frozenset(), **more: Any
) -> Provider:
    """As Nova writes it; `held`: consumer to devices, those that begin with "x" are not ours."""
    held: Mapping[str, int] = more.pop("held", {})
    row = {"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, **more}
    return Provider(
        root,
        {name: stock_of({"allocation_ratio": 1.0, **row})},
        traits,
        {consumer: {name: count} for consumer, count in held.items()},
        frozenset(consumer for consumer in held if consumer.startswith("x")),
    )


def taken(
    *providers: Provider, sold: tuple[SoldPool, ...] = (), given: Mapping[str, str] = MappingProxyType({})
) -> Inventory:
    hosts = {each.root: each.root for each in providers}
    up = {host: {"state": "up", "status": "enabled"} for host in hosts}
    return inventory_of(providers, hosts, up, Classes(given), ALIASES, ALIASES, sold)


def node(found: Inventory, slug: str, host: str = "host") -> ObservedNode:
    (one,) = (each for each in found.nodes if (each.name, each.kind_slug) == (host, slug))
    return one


def slugs(found: Inventory) -> list[str]:
    return [pool.kind.slug for pool in found.pools]


def test_a_reserved_card_is_out_of_order_and_still_there() -> None:
    found = taken(card(reserved=1), *(card() for _ in range(7)))
    one = node(found, WHOLE)
    assert (one.capacity, one.unhealthy, one.healthy, one.free) == (8, 1, 7, 7)
    assert slugs(found) == [WHOLE]


def test_a_reserved_card_that_is_held_is_held() -> None:
    one = node(taken(card(reserved=1, held={"vm": 1}), card()), WHOLE)
    assert (one.capacity, one.unhealthy, one.allocated, one.free) == (2, 0, 1, 1)
    one = node(taken(card(reserved=1), card()), WHOLE)
    assert (one.unhealthy, one.allocated, one.free) == (1, 0, 1)


def test_all_cards_reserved_are_none_to_be_had() -> None:
    one = node(taken(*(card(reserved=1) for _ in range(3))), WHOLE)
    assert (one.capacity, one.healthy, one.free) == (3, 0, 0)


def test_a_reserved_share_changes_no_type() -> None:
    """A vGPU and a virtual function: what was 1 of 4 stays so."""
    traits = frozenset({L40S})
    for reserved in range(5):
        found = taken(card(VGPU, 4, traits=traits, reserved=reserved), card(A16, 4, reserved=reserved))
        assert slugs(found) == ["a16-16gb-vgpu-4gb", "l40s-48gb-vgpu-12gb"]
        assert {each.shares for each in found.nodes} == {4}
        assert {each.healthy for each in found.nodes} == {4 - reserved}


def test_what_an_inventory_gives_out_is_what_can_be_had() -> None:
    traits = frozenset({L40S})

    def vgpus(total: int = 4, **more: Any) -> ObservedNode:
        return node(taken(card(VGPU, total, traits=traits, **more)), "l40s-48gb-vgpu-12gb")

    assert vgpus(allocation_ratio=0.5).healthy == 2
    assert vgpus(allocation_ratio=16.0).healthy == 4, "no ratio makes more of them"
    assert vgpus(allocation_ratio=16.0, reserved=1).healthy == 3
    assert vgpus(max_unit=1).largest_block == 1
    assert vgpus().largest_block == 4
    assert vgpus(held={"vm": 3}).largest_block == 1
    for more in ({"step_size": 2}, {"min_unit": 2}):
        by_two = vgpus(**more)
        assert (by_two.capacity, by_two.healthy) == (4, 0)
        assert by_two.reason == "VGPU: Placement gives them out only by 2"


def test_a_machine_gets_passed_through_cards_of_several_providers_but_shares_of_one() -> None:
    traits = frozenset({L40S})
    found = taken(*(card() for _ in range(8)), *(card(VGPU, 4, traits=traits) for _ in range(2)))
    assert node(found, WHOLE).largest_block == 8
    assert node(found, "l40s-48gb-vgpu-12gb").largest_block == 4


def test_shares_of_two_sizes_that_are_requested_alike_are_not_sold() -> None:
    traits = frozenset({L40S})
    cards = card(VGPU, 4, traits=traits), card(VGPU, 8, root="other", traits=traits)
    found = taken(*cards)
    assert slugs(found) == ["l40s-48gb-vgpu-12gb", "l40s-48gb-vgpu-6gb"]
    assert all("both are VGPU with the trait CUSTOM_GPU_L40S" in pool.trouble for pool in found.pools)


def test_a_second_class_for_one_kind_is_not_understood_and_what_was_sold_stays() -> None:
    function = card("CUSTOM_PCI_10DE_25B6", 1, root="other", held={"vm": 1})
    cards = card(A16, 1), function
    found = taken(*cards)
    assert [pool.resource_name for pool in found.pools] == ["CUSTOM_PCI_10DE_25B6"]
    (rest,) = found.unknown
    assert (rest.place, rest.name, rest.count) == ("host", A16, 1)
    assert found.names == ("CUSTOM_PCI_10DE_25B6", A16), "both are closed to who did not buy them"
    found = taken(*cards, sold=(SoldPool("a16-16gb", A16),))
    assert [pool.resource_name for pool in found.pools] == [A16]
    assert [each.name for each in found.unknown] == ["CUSTOM_PCI_10DE_25B6"]


def test_what_others_hold_is_told_apart() -> None:
    one = node(taken(card(held={"vm": 1}), card(held={"x": 1}), card()), WHOLE)
    assert (one.allocated, one.others, one.free) == (2, 1, 1)


OWN = "CUSTOM_GPU_H100"


def test_a_class_that_nobody_explained_is_told_and_not_sold() -> None:
    found = taken(card(OWN, 4), card("PGPU", 2), card("CUSTOM_BAREMETAL_GOLD"), card("CUSTOM_LICENSE", 9))
    assert found.pools == ()
    assert {(each.name, each.count) for each in found.unknown} == {
        (OWN, 4),
        ("PGPU", 2),
        ("CUSTOM_LICENSE", 9),
    }
    assert all("does not know" in each.reason and each.place == "host" for each in found.unknown)
    assert found.names == (OWN, "CUSTOM_LICENSE", "PGPU"), "closed to everybody, and so is bare metal"
    check = devices.understood(found)
    assert (check.type, check.status, check.reason) == ("ResourceClasses", Status.FALSE, "NotUnderstood")
    assert f"4 × {OWN} of host" in check.message
    assert "gpu_classes" in check.remedy


def test_a_class_that_the_operator_explained_is_sold_as_what_it_is() -> None:
    given = {OWN: "NVIDIA-H100-80GB-HBM3", "CUSTOM_VGPU_X": "L40S/4", "CUSTOM_LICENSE": "none", "PGPU": "T4"}
    found = taken(
        card(OWN, 4),
        card("CUSTOM_VGPU_X", 4),
        card("CUSTOM_LICENSE", 9),
        card("PGPU", 2),
        given=given,
    )
    pools = {pool.resource_name: pool for pool in found.pools}
    assert {name: pool.kind.slug for name, pool in pools.items()} == {
        OWN: WHOLE,
        "CUSTOM_VGPU_X": "l40s-48gb-vgpu-12gb",
        "PGPU": "t4-16gb",
    }
    assert dict(pools[OWN].selector) == {f"resources:{OWN}": "1"}
    assert node(found, WHOLE).capacity == 4
    assert node(found, "l40s-48gb-vgpu-12gb").shares == 4
    assert found.unknown == ()
    assert "CUSTOM_LICENSE" not in found.names
    assert devices.understood(found).status == Status.TRUE


def test_what_the_operator_explains_is_read_with_care() -> None:
    for name, model in (("H100", "H100"), ("VGPU", "L40S"), (OWN, ""), (OWN, "H100/0"), (OWN, "H100:2")):
        with pytest.raises(Invalid, match="model"):
            options_check({"gpu_classes": {name: model}})
    options_check(
        {"gpu_classes": {OWN: "H100", "CUSTOM_X": "none", "PGPU": "T4/16"}, "aliases": {OWN: "h100"}}
    )
    for wrong in ({OWN: "h100"}, {"CUSTOM_X": "x"}):
        with pytest.raises(Invalid, match="gpu_classes names their model"):
            options_check({"gpu_classes": {"CUSTOM_X": "none"}, "aliases": wrong})


def test_what_was_not_bought_is_closed_whatever_its_name() -> None:
    names = [H100, OWN, "VGPU", "PGPU", "CUSTOM_VGPU_X", "CUSTOM_BAREMETAL_GOLD", "CUSTOM_LICENSE"]
    names += ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU", "VGPU_DISPLAY_HEAD"]
    registered: dict[str, Any] = {limit_name(name): {} for name in names} | {"servers": {}}
    given = Classes({"CUSTOM_LICENSE": "none", OWN: "H100"})
    bought = replace(spec_of(gpus=2), gpus=(GpuAmount(OWN, 2),))
    wanted = wanted_limits(bought, registered, given)
    closed = {name for name, amount in wanted.items() if not amount}
    assert closed == {
        limit_name(name) for name in (H100, "VGPU", "PGPU", "CUSTOM_VGPU_X", "CUSTOM_BAREMETAL_GOLD")
    }
    assert wanted[limit_name(OWN)] == 2
    assert limit_name("CUSTOM_LICENSE") not in wanted, "it stays at the site's default"


def test_an_unexplained_class_needs_a_registered_limit_too() -> None:
    plain = {name: {"default_limit": 1} for name in devices.PLAIN}
    check = devices.registered(taken(card(OWN, 4)), plain, {}, "RegionOne")
    assert (check.status, check.reason, check.blocking) == (Status.FALSE, "Missing", True)
    assert f"class:{OWN}" in check.message


def test_machines_are_counted_by_the_class_that_they_hold() -> None:
    flavor = {
        "resources:CUSTOM_GPU_H100": "4",
        "resources:CUSTOM_LICENSE": "1",
        "pci_passthrough:alias": "h100:2",
    }
    server = {"flavor": {"extra_specs": flavor}}
    assert gpus_of(server, Classes({"CUSTOM_LICENSE": "none"}, {"h100": H100})) == {OWN: 4, H100: 2}


STOCKS = st.builds(
    lambda name, total, reserved, held, ratio, step, root: card(
        name,
        total,
        root=root,
        traits=frozenset({L40S}) if name == VGPU else frozenset(),
        reserved=min(reserved, total),
        held={consumer: min(count, total) for consumer, count in held.items()},
        allocation_ratio=ratio,
        step_size=step,
    ),
    st.sampled_from([H100, A16, VGPU, "CUSTOM_PCI_10DE_25B6", OWN]),
    st.integers(1, 8),
    st.integers(0, 8),
    st.dictionaries(st.sampled_from(["vm", "vm2", "x", "x2"]), st.integers(1, 8), max_size=1),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([1, 2]),
    st.sampled_from(["host", "other"]),
)


@given_some(st.lists(STOCKS, max_size=12))
def test_every_device_is_counted_once(providers: list[Provider]) -> None:
    found = taken(*providers)
    assert len(set(slugs(found))) == len(found.pools)
    assert len({(each.name, each.kind_slug) for each in found.nodes}) == len(found.nodes)
    for each in found.nodes:
        ours = each.allocated - each.others
        parts = (each.free, ours, each.others, each.unhealthy)
        assert min(parts) >= 0
        assert sum(parts) == each.capacity
    known = sum(each.capacity for each in found.nodes) + sum(each.count for each in found.unknown)
    assert known == sum(stock.total for each in providers for stock in each.stocks.values())
