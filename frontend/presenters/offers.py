"""The flavors a project may ask for, with what is free, what its limits leave, and the price."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.selectors import prices_at
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.selectors import flavors_for
from gpuaas.catalog.states import PriceClass
from gpuaas.metering.models import Meter
from quotas.resources import gpu_resource
from quotas.selectors import LimitLine, limits_for_project
from tenants.actors import Actor
from tenants.models import Project

FILTERS = ("memory", "capability", "interconnect", "site", "price_class")


@dataclass(frozen=True)
class Offer:
    """`left` in words: what the smaller of the project's and the organization's limit leaves of this GPU type."""

    slug: str
    name: str
    with_words: str
    memory: int
    capability: str
    interconnect: str
    site: str
    price_class: str
    free: int
    left: str
    none_left: bool
    per_hour: Decimal | None
    gpus: int


@dataclass(frozen=True)
class Choices:
    """A filter: its name, its label, and the values that occur."""

    name: str
    label: str
    values: tuple[tuple[str, str], ...]
    chosen: str


def offers_of(*, actor: Actor, project: Project) -> list[Offer]:
    """Three queries at any length."""
    lines = {line.resource: line for line in limits_for_project(project=project)}
    prices = prices_at()
    return [_offer(flavor, lines, prices) for flavor in flavors_for(actor=actor)]


def _offer(flavor: Flavor, lines: Mapping[str, LimitLine], prices: Mapping[Any, Any]) -> Offer:
    kind, pool = flavor.pool.gpu_type, flavor.pool
    line = lines.get(gpu_resource(kind.slug))
    price = prices.get((flavor.pk, Meter.GPU_HELD))
    size = f"with {flavor.vcpus} vCPU, {flavor.memory_gib} GiB"
    disk = f", {flavor.disk_gib} GB disk" if flavor.disk_gib else ""
    more = f", {flavor.gpus} GPUs" if flavor.gpus > 1 else ""
    return Offer(
        slug=flavor.slug,
        name=flavor.name,
        with_words=f"{size}{disk}{more}",
        memory=kind.memory_gib,
        capability=kind.compute_capability,
        interconnect=kind.interconnect,
        site=pool.site.slug,
        price_class=flavor.price_class,
        free=max(pool.healthy - pool.allocated, 0),
        left=left_words(line),
        none_left=line is None or line.left == 0,
        per_hour=price.per_hour * flavor.gpus if price else None,
        gpus=flavor.gpus,
    )


def left_words(line: LimitLine | None) -> str:
    if line is None:
        return "none"
    if line.left is None:
        return "no limit"
    tops = [limit for limit in (line.limit, line.organization_limit) if limit is not None]
    return f"{line.left:,} of {min(tops):,} left" if min(tops) else "none"


def filtered(offers: Sequence[Offer], wanted: Mapping[str, str]) -> list[Offer]:
    """Memory and capability are at-least filters, as people choose by what a job needs."""
    return [offer for offer in offers if _fits(offer, wanted)]


def _fits(offer: Offer, wanted: Mapping[str, str]) -> bool:
    memory, capability = wanted.get("memory", ""), wanted.get("capability", "")
    if memory.isdigit() and offer.memory < int(memory):
        return False
    if capability and _version(offer.capability) < _version(capability):
        return False
    same = ("interconnect", "site", "price_class")
    return all(not wanted.get(name) or getattr(offer, name) == wanted[name] for name in same)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


def choices_of(offers: Iterable[Offer], wanted: Mapping[str, str]) -> tuple[Choices, ...]:
    """Only filters that tell offers apart are shown."""
    rows = list(offers)
    memory = sorted({row.memory for row in rows})
    capability = sorted({row.capability for row in rows if row.capability}, key=_version)
    found = {
        "memory": ("Memory", [(str(gib), f"{gib} GB or more") for gib in memory]),
        "capability": ("Compute capability", [(text, f"{text} or newer") for text in capability]),
        "interconnect": ("Interconnect", _same(row.interconnect for row in rows)),
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


def _same(values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in sorted({value for value in values if value})]
