"""The flavors a project may ask for, with what is free, what its limits leave, and the price."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.selectors import gpu_price, prices_at
from billing.selectors.costs import currency_of
from frontend.presenters.tuning import nodes_words, tuning_words
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.states import PriceClass
from gpuaas.metering.models import Meter
from quotas.gpus import Gpus, gpus_of_pools
from quotas.resources import flavor_resource
from quotas.selectors import LimitLine, limits_for_project
from tenants.actors import Actor
from tenants.models import Project

AT_LEAST = ("memory_gib_min", "compute_capability_min")
SAME = ("interconnect", "arch", "site", "price_class")
SWITCHES = {
    "ecc": "ECC",
    "mig_capable": "MIG-capable",
    "whole_node": "Whole node",
    "same_numa": "Same NUMA node",
    "same_rack": "Same rack",
    "nvlink_domain": "NVLink domain",
}
FILTERS = (*AT_LEAST, *SAME, *SWITCHES)
MEMORY_MOST = 1_000_000
VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3})?")


@dataclass(frozen=True)
class Offer:
    """`left` in words: what the smaller of the project's and the organization's limit leaves of this GPU type.

    `reserved`: "us" or "others" if the pool is reserved, else ""; nobody but its owner gets any of it.
    """

    slug: str
    name: str
    with_words: str
    tuned: str
    memory: int
    capability: str
    interconnect: str
    arch: str
    site: str
    price_class: str
    free: int
    reserved: str
    left: str
    none_left: bool
    per_hour: Decimal | None
    by_use: bool
    gpus: int
    has: frozenset[str]


@dataclass(frozen=True)
class Choices:
    """A filter: its name, its label, and the values that occur."""

    name: str
    label: str
    values: tuple[tuple[str, str], ...]
    chosen: str


@dataclass(frozen=True)
class Switch:
    name: str
    label: str
    on: bool


@dataclass(frozen=True)
class Offers:
    """The number of flavors on offer and of those that match, these with the one that is chosen, and the filters that distinguish them."""

    every: int
    matching: int
    currency: str
    rows: tuple[Offer, ...]
    choices: tuple[Choices, ...]
    switches: tuple[Switch, ...]

    @property
    def narrowed(self) -> bool:
        return self.matching < self.every


def offers_of(*, actor: Actor, project: Project, wanted: Mapping[str, str], chosen: str = "") -> Offers:
    """Six queries for any number of flavors. The catalog decides what matches, as for the API; no filter takes the choice back."""
    lines = {line.resource: line for line in limits_for_project(project=project)}
    prices = prices_at(organization=project.organization)
    found = list(flavors_for(actor=actor))
    gpus = gpus_of_pools((flavor.pool for flavor in found), owners=True)
    every = [
        _offer(flavor, lines, prices, reserved=_reserved(gpus[flavor.pool_id].owner, project), gpus=gpus)
        for flavor in found
    ]
    asked = asked_of(wanted)
    fits = set(flavors_for(actor=actor, **asked).values_list("slug", flat=True)) if asked else None
    matching = [offer for offer in every if fits is None or offer.slug in fits]
    rows = tuple(offer for offer in every if offer in matching or offer.slug == chosen)
    filters = choices_of(every, wanted), switches_of(every, wanted)
    return Offers(len(every), len(matching), currency_of(project.organization_id), rows, *filters)


def asked_of(wanted: Mapping[str, str]) -> dict[str, Any]:
    """The arguments for the selector; values that cannot be parsed are ignored."""
    memory, version = wanted.get("memory_gib_min", ""), wanted.get("compute_capability_min", "")
    found: dict[str, Any] = {name: wanted[name][:64] for name in SAME if wanted.get(name, "").isprintable()}
    found = {name: value for name, value in found.items() if value}
    if memory.isascii() and memory.isdigit() and 0 < int(memory[:9]) <= MEMORY_MOST:
        found["memory_gib_min"] = int(memory[:9])
    if VERSION.fullmatch(version):
        found["compute_capability_min"] = version
    return found | {name: True for name in SWITCHES if wanted.get(name) == "1"}


def _reserved(owner: uuid.UUID | None, project: Project) -> str:
    if owner is None:
        return ""
    return "us" if owner == project.organization_id else "others"


def _offer(
    flavor: Flavor, lines: Mapping[str, LimitLine], prices: Mapping[Any, Any], *, reserved: str, gpus: Gpus
) -> Offer:
    kind, pool = flavor.pool.gpu_type, flavor.pool
    reserved = "" if flavor.is_lent else reserved
    line = lines.get(flavor_resource(flavor))
    price, meter = gpu_price(prices, flavor.pk)
    size = f"with {flavor.vcpus:,} vCPU, {flavor.memory_gib:,} GiB"
    disk = f", {flavor.disk_gib} GB disk" if flavor.disk_gib else ""
    more = f", {flavor.gpus} GPUs" if flavor.gpus > 1 else ""
    return Offer(
        slug=flavor.slug,
        name=flavor.name,
        with_words=f"{size}{disk}{more}",
        tuned=" · ".join((*tuning_words(flavor), *nodes_words(flavor))),
        memory=kind.memory_gib,
        capability=kind.compute_capability,
        interconnect=kind.interconnect,
        arch=pool.arch,
        site=pool.site.slug,
        price_class=flavor.price_class,
        free=0 if reserved == "others" else gpus[pool.pk].free_as(flavor),
        reserved=reserved,
        left=left_words(line),
        none_left=line is None or line.left == 0,
        per_hour=price.per_hour * flavor.gpus if price else None,
        by_use=meter == Meter.GPU_ALLOCATED,
        gpus=flavor.gpus,
        has=frozenset(name for name in SWITCHES if _has(flavor, name)),
    )


def _has(flavor: Flavor, name: str) -> bool:
    owner = flavor.pool.gpu_type if name in {"ecc", "mig_capable"} else flavor
    return bool(getattr(owner, name))


def left_words(line: LimitLine | None) -> str:
    if line is None:
        return "none"
    if line.left is None:
        return "no limit"
    tops = [limit for limit in (line.limit, line.organization_limit) if limit is not None]
    return f"{line.left:,} of {min(tops):,} left" if min(tops) else "none"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


def choices_of(offers: Iterable[Offer], wanted: Mapping[str, str]) -> tuple[Choices, ...]:
    """Only filters that distinguish offers are shown."""
    rows = list(offers)
    memory = sorted({row.memory for row in rows})
    capability = sorted({row.capability for row in rows if row.capability}, key=_version)
    found = {
        "memory_gib_min": ("Memory", [(str(gib), f"{gib} GB or more") for gib in memory]),
        "compute_capability_min": (
            "Compute capability",
            [(text, f"{text} or newer") for text in capability],
        ),
        "interconnect": ("Interconnect", _same(row.interconnect for row in rows)),
        "arch": ("Architecture", _same(row.arch for row in rows)),
        "site": ("Site", _same(row.site for row in rows)),
        "price_class": (
            "Price",
            [(value, PriceClass(value).label) for value, _ in _same(r.price_class for r in rows)],
        ),
    }
    return tuple(
        Choices(name, label, tuple(values), wanted.get(name, ""))
        for name, (label, values) in found.items()
        if len(values) > 1
    )


def switches_of(offers: Sequence[Offer], wanted: Mapping[str, str]) -> tuple[Switch, ...]:
    """Attributes that only some offers have, and those that are switched on."""
    shown = []
    for name, label in SWITCHES.items():
        having = sum(name in offer.has for offer in offers)
        on = wanted.get(name) == "1"
        if on or 0 < having < len(offers):
            shown.append(Switch(name, label, on))
    return tuple(shown)


def _same(values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in sorted({value for value in values if value})]
