"""What was sold keeps its name, its class and its labels in every inventory that follows, and no device is open twice."""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.catalog.services.contracts import ContractsKept, contracts_keep
from gpuaas.providers.base import SoldPool
from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubernetes.inventory.plugin import PRODUCT
from tests.providers.kubernetes.test_dra_inventory import device, device_class, published
from tests.providers.kubernetes.test_inventory import A100, H100, MI300X, POOL, look, node

DRIVER = "gpu.nvidia.com"
ALL = f"device.driver == '{DRIVER}'"
OF_H100 = f"device.attributes['{DRIVER}'].productName == '{H100}'"
OF_A100 = f"device.attributes['{DRIVER}'].productName == '{A100}'"
CLASSES = {
    "h100": device_class("h100", OF_H100, extended="example.com/h100"),
    "h100, of another name": device_class("h100", OF_H100, extended="example.com/renamed"),
    "h100, for other cards": device_class("h100", OF_A100, extended="example.com/h100"),
    "a": device_class("a", OF_H100, extended="example.com/a"),
    "same": device_class("same", OF_H100, extended="example.com/h100"),
    "z": device_class("z", OF_H100),
    "a100": device_class("a100", OF_A100),
    "gpu": device_class("gpu", ALL, extended="example.com/gpu"),
}
NAMES = ("nvidia.com/gpu", "nvidia.com/h100", "nvidia.com/z")
CARDS = 4


@dataclass(frozen=True)
class Box:
    """A node with so many cards; every name of `names` counts four of them, or so many shares of each."""

    names: tuple[str, ...] = ("nvidia.com/gpu",)
    product: str = H100
    label: str = "h"
    says: int = 0
    replicas: int = 1

    @property
    def cards(self) -> int:
        return max(self.says, CARDS)

    def body(self, name: str) -> Object:
        labels = {PRODUCT: self.product, "nvidia.com/gpu.memory": "81559"}
        labels |= {POOL: self.label} if self.label else {}
        labels |= {"nvidia.com/gpu.count": str(self.says)} if self.says else {}
        if self.replicas > 1:
            labels |= {
                "nvidia.com/gpu.replicas": str(self.replicas),
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            }
        return node(name, dict.fromkeys(self.names, str(CARDS * self.replicas)), labels)


@dataclass(frozen=True)
class Place:
    """Nodes by plugins, and one whose cards a DRA driver publishes."""

    boxes: tuple[Box, ...] = (Box(), Box())
    claimed: tuple[str, ...] = (H100,) * CARDS
    claimed_label: str = "claims"
    classes: tuple[str, ...] = ("h100",)

    def look(self, sold: tuple[SoldPool, ...] = ()) -> ContractsKept:
        nodes = [box.body(f"n{number}") for number, box in enumerate(self.boxes)]
        nodes.append(node("c", {}, {POOL: self.claimed_label} if self.claimed_label else {}))
        devices = [device(f"gpu-{number}", product) for number, product in enumerate(self.claimed)]
        rows = [published(*devices, pool="c")] if devices else []
        classes = [CLASSES[name] for name in self.classes]
        return contracts_keep(look(*nodes, sold=sold, resourceslices=rows, deviceclasses=classes), sold)


def sell(kept: ContractsKept, sold: tuple[SoldPool, ...], *slugs: str) -> tuple[SoldPool, ...]:
    """As an operator may: nothing that is in trouble, and of what is cut from the same cards only one."""
    found = list(sold)
    for pool in kept.inventory.pools:
        taken = {each.kind_slug for each in found}
        rivals = {
            each.kind.slug for each in kept.inventory.pools if pool.kind.slug in each.shares_with
        } | set(pool.shares_with)
        if pool.kind.slug in slugs and not pool.trouble and not taken & {pool.kind.slug, *rivals}:
            found.append(SoldPool(pool.kind.slug, pool.resource_name, pool.selector, pool.device_class))
    return tuple(found)


def assert_kept(kept: ContractsKept, sold: tuple[SoldPool, ...], place: Place) -> None:
    found = {pool.kind.slug: pool for pool in kept.inventory.pools}
    assert len(found) == len(kept.inventory.pools)
    for each in sold:
        pool = found.get(each.kind_slug)
        if pool is None:
            assert kept.breaches[each.kind_slug]
            continue
        assert (pool.resource_name, dict(pool.selector)) == (each.resource_name, dict(each.selector))
        assert pool.device_class == each.device_class
        assert bool(pool.trouble) == (each.kind_slug in kept.breaches)
    opened: dict[tuple[str, str], Fraction] = {}
    for row in kept.inventory.nodes:
        if row.kind_slug in {each.kind_slug for each in sold}:
            key = row.name, found[row.kind_slug].kind.product
            opened[key] = opened.get(key, Fraction()) + Fraction(row.healthy, row.shares)
    has = {f"n{number}": box.cards for number, box in enumerate(place.boxes)} | {"c": CARDS}
    assert all(count <= has[name] for (name, _), count in opened.items()), opened


boxes = st.builds(
    Box,
    names=st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(tuple),
    product=st.sampled_from([H100, A100]),
    label=st.sampled_from(["h", "a", ""]),
    says=st.sampled_from([0, CARDS, 2 * CARDS]),
    replicas=st.sampled_from([1, 1, 2, 10]),
)
places = st.builds(
    Place,
    boxes=st.tuples(boxes, boxes),
    claimed=st.lists(st.sampled_from([H100, A100]), max_size=CARDS).map(tuple),
    claimed_label=st.sampled_from(["claims", "h", ""]),
    classes=st.lists(st.sampled_from(sorted(CLASSES)), unique_by=lambda name: name.partition(",")[0]).map(
        tuple
    ),
)
histories = st.lists(st.tuples(places, st.sets(st.integers(0, 7))), min_size=2, max_size=6)


@settings(max_examples=400, deadline=None)
@given(history=histories)
def test_no_inventory_rewrites_a_contract(history: list[tuple[Place, set[int]]]) -> None:
    sold: tuple[SoldPool, ...] = ()
    for place, chosen in history:
        kept = place.look(sold)
        assert_kept(kept, sold, place)
        slugs = sorted(pool.kind.slug for pool in kept.inventory.pools)
        sold = sell(kept, sold, *(slug for number, slug in enumerate(slugs) if number in chosen))
        assert_kept(place.look(sold), sold, place)


BEFORE = Place()
SLUGS = ("h100-sxm-80gb", "h100-sxm-80gb-dra")


@pytest.fixture
def sold() -> tuple[SoldPool, ...]:
    return sell(BEFORE.look(), (), *SLUGS)


def test_the_stage_is_as_it_was_sold(sold: tuple[SoldPool, ...]) -> None:
    assert [(each.kind_slug, each.resource_name, each.device_class) for each in sold] == [
        ("h100-sxm-80gb", "nvidia.com/gpu", ""),
        ("h100-sxm-80gb-dra", "example.com/h100", "h100"),
    ]
    kept = BEFORE.look(sold)
    assert not kept.breaches
    assert not kept.inventory.seconds
    assert kept.inventory.pools == BEFORE.look().inventory.pools


@dataclass(frozen=True)
class Told:
    """After a change: how many devices of the sold take work, what is closed, and what was broken, in words."""

    place: Place
    healthy: tuple[int, int] = (8, 4)
    seconds: str = ""
    breach: str = ""
    more: dict[str, Any] = field(default_factory=dict)


TOLD = {
    "a second class": Told(
        replace(BEFORE, classes=("h100", "a")),
        seconds="device class a selects GPUs that are sold as example.com/h100",
    ),
    "a second class of the same name": Told(
        replace(BEFORE, classes=("h100", "same")),
        seconds="device class same",
        breach="also uses example.com/h100",
    ),
    "the class is gone, another is there": Told(
        replace(BEFORE, classes=("a",)), (8, 0), breach="the site has no example.com/h100"
    ),
    "the class is for other cards": Told(
        replace(BEFORE, classes=("h100, for other cards",)), (8, 0), breach="the site has no example.com/h100"
    ),
    "the class has another name": Told(
        replace(BEFORE, classes=("h100, of another name",)), breach="is now called example.com/renamed"
    ),
    "the resource is renamed": Told(
        replace(BEFORE, boxes=(Box(names=("nvidia.com/h100",)),) * 2),
        (0, 4),
        breach="the site has no nvidia.com/gpu",
    ),
    "a second plugin": Told(
        replace(BEFORE, boxes=(Box(names=("nvidia.com/gpu", "nvidia.com/a")), Box())),
        seconds="nvidia.com/a counts H100 SXM 80 GB that are sold as nvidia.com/gpu (1 node)",
    ),
    "a second plugin for other cards": Told(
        replace(BEFORE, boxes=(Box(names=("nvidia.com/gpu", "nvidia.com/a"), says=2 * CARDS), Box()))
    ),
    "a node loses its label": Told(replace(BEFORE, boxes=(Box(label=""), Box())), (4, 4)),
    "every node loses its label": Told(
        replace(BEFORE, boxes=(Box(label=""),) * 2), (0, 4), breach="lacks the label gpuaas.io/pool=h"
    ),
    "a node says it is another card": Told(
        replace(BEFORE, boxes=(Box(product=A100), Box())), (4, 4), breach="also selects A100 SXM 80 GB"
    ),
}


@pytest.mark.parametrize("what", TOLD)
def test_what_changes_is_told_and_the_contract_stays(what: str, sold: tuple[SoldPool, ...]) -> None:
    told = TOLD[what]
    kept = told.place.look(sold)
    assert_kept(kept, sold, told.place)
    healthy = Counter[str]()
    for row in kept.inventory.nodes:
        healthy[row.kind_slug] += row.healthy
    assert tuple(healthy[slug] for slug in SLUGS) == told.healthy
    assert told.seconds in "; ".join(kept.inventory.seconds)
    assert bool(told.seconds) == bool(kept.inventory.seconds)
    assert told.breach in "; ".join(kept.breaches.values())
    assert bool(told.breach) == bool(kept.breaches)


def test_what_comes_by_another_name_is_a_type_of_its_own(sold: tuple[SoldPool, ...]) -> None:
    """So an operator can sell it, and move people there; who bought the old name is not moved by itself."""
    kept = TOLD["the resource is renamed"].place.look(sold)
    found = {pool.kind.slug: pool for pool in kept.inventory.pools}
    assert found["h100-sxm-80gb-h100"].resource_name == "nvidia.com/h100"
    assert not found["h100-sxm-80gb-h100"].trouble


def test_cards_in_several_modes_are_several_cards() -> None:
    """Slices and partitions on one node are told by one plugin, each card once; two names for whole cards are not."""
    mig = {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "2", "nvidia.com/gpu": "4"}
    modes = {"amd.com/gpu": "4", "amd.com/cpx_nps1": "32"}
    seen = look(node("a", mig, {PRODUCT: H100, "nvidia.com/gpu.memory": "81559"}), node("b", modes, MI300X))
    assert len(seen.pools) == 5
    assert not any(pool.shares_with for pool in seen.pools)
    whole = dict.fromkeys(("nvidia.com/gpu", "nvidia.com/h100"), "4")
    seen = look(node("a", whole, {PRODUCT: H100, "nvidia.com/gpu.memory": "81559"}))
    assert [pool.shares_with for pool in seen.pools] == [("h100-sxm-80gb-h100",), ("h100-sxm-80gb",)]


def test_other_cards_behind_the_label_of_what_was_sold_are_not_for_sale(sold: tuple[SoldPool, ...]) -> None:
    kept = TOLD["a node says it is another card"].place.look(sold)
    a100 = next(pool for pool in kept.inventory.pools if pool.kind.slug.startswith("a100"))
    assert "would get these devices" in a100.trouble
