"""Into how many shares the cards of a node are divided: what its labels say, or else what the number of its devices shows.

A plugin that divides cards without saying so (HAMi, time slicing without feature discovery, Intel's shared devices, partitions of
AMD) counts more devices than the node has cards.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuaas.providers.kinds import Share
from gpuaas.providers.kubernetes.inventory.vendors import AMD, INTEL, first, vendor_of

GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"
SHARED = ".shared"
HAMI = "hami.io/node-nvidia-register"
UNSIZED = "nothing says into how many shares a card is divided: label the node with {0}.replicas or {0}.count"
UNEVEN = "{cards} cards are counted as {devices} devices, which are not so many shares of each"
_MODES = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}
_MODE_LABELS = (
    "amd.com/gpu.compute-memory-partition",
    "amd.com/compute-memory-partition",
    "amd.com/compute-partition",
)
_ACCELERATOR_DIES = {"MI300A": 6, "MI308X": 4}  # all others of the family have eight
_CARD_LISTS = ("gpu.intel.com/gpu-numbers", "gpu.intel.com/cards")
_CARD_COUNT = re.compile(r"gpu\.intel\.com/device-id\.[\w-]+\.count")


@dataclass(frozen=True)
class Sharing:
    """`share`: None for whole cards and slices, of=1 for a share of unknown size. `trouble`: why nobody can tell, in words."""

    share: Share | None = None
    trouble: str = ""


def sharing(
    resource: str, product: str, labels: Mapping[str, str], annotations: Mapping[str, str], devices: int
) -> Sharing:
    """`devices`: how many the node counts by this name; 0: not known."""
    vendor, name = vendor_of(resource)
    if vendor is AMD:
        return _partitions(name, product, labels, devices)
    said, strategy = replicas(resource, labels), label(resource, labels, "sharing-strategy")
    of = 1 if strategy == "none" else said
    cards = _intel_cards(labels) if vendor is INTEL else _cards(resource, labels, annotations)
    if "-MIG-" in product.upper():
        cards = (
            0  # the name of the card counts slices there, and what `count` says then depends on its version
        )
    if cards and devices > cards * of:
        if devices % cards:
            return Sharing(trouble=UNEVEN.format(cards=cards, devices=devices))
        of = devices // cards
    if of > 1 or resource.endswith(SHARED) or product.endswith("-SHARED"):
        return Sharing(Share(of, limited=strategy == "mps" and of > 1))
    return Sharing()


def _partitions(name: str, product: str, labels: Mapping[str, str], devices: int) -> Sharing:
    """AMD's cards are divided by a mode that is in the name or in a label; the devices of a card are equal parts of it."""
    mode = (name if "_" in name else first(labels, _MODE_LABELS)).lower().partition("_")[0]
    dies = next((count for model, count in _ACCELERATOR_DIES.items() if model in product.upper()), 8)
    of = dies if mode == "cpx" else _MODES.get(mode, 1)
    if devices % of:
        return Sharing(trouble=f"in the mode {mode} each card is {of} devices, and the node counts {devices}")
    return Sharing(Share(of)) if of > 1 else Sharing()


def _cards(resource: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> int:
    """Cards, or slices for the name of a slice; 0: not known."""
    if resource == GPU and (registered := annotations.get(HAMI)):
        return _registered(registered)
    return _whole(label(resource, labels, "count"))


def _registered(text: str) -> int:
    """HAMi's list of cards: JSON, or entries of commas between colons."""
    try:
        found = json.loads(text)
    except ValueError:
        return sum("," in entry for entry in text.split(":"))
    return len(found) if isinstance(found, list) else 0


def _intel_cards(labels: Mapping[str, str]) -> int:
    listed = first(labels, _CARD_LISTS)
    counted = sum(_whole(value) for key, value in labels.items() if _CARD_COUNT.fullmatch(key))
    return len([each for each in listed.split(".") if each]) or counted


def replicas(resource: str, labels: Mapping[str, str]) -> int:
    return max(_whole(label(resource, labels, "replicas")), 1)


def label(resource: str, labels: Mapping[str, str], what: str) -> str:
    """Those of the resource's own name take precedence over those of the card; sharing of cards does not apply to slices."""
    own = resource.removesuffix(SHARED)
    keys = (own,) if own.startswith(MIG_PREFIX) else (own, GPU)
    return next((labels[f"{key}.{what}"] for key in keys if f"{key}.{what}" in labels), "")


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
