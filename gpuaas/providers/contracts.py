"""Assigns kinds to devices that a site counts by several names: what was sold keeps the kind it was sold as."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuaas.providers.base import DeviceKind, SoldPool

Sold = Sequence[SoldPool]
_SIZE = re.compile(r"-shared-1of(\d+)")
_ARCH = re.compile(r"-(arm64|ppc64le|riscv64|s390x)$")


def slugs_of(slug: str, resource_name: str) -> tuple[str, str, str]:
    """Possible slugs of a pool of this kind: plain, with the end of its resource name, or with a hash of the whole name."""
    mark = hashlib.sha256(resource_name.encode()).hexdigest()[:8]
    return slug, f"{slug}-{tail_of(resource_name)}"[:64], f"{slug[:55]}-{mark}"


def tail_of(resource_name: str) -> str:
    return resource_name.rpartition("/")[2].lower().replace("_", "-")


def contract_of(slug: str, resource_name: str, sold: Sold) -> SoldPool | None:
    """The sold pool of this kind and name, if any."""
    called = slugs_of(slug, resource_name)
    return next(
        (each for each in sold if each.resource_name == resource_name and each.kind_slug in called), None
    )


def kinds_apart(pairs: Mapping[tuple[str, str], DeviceKind], sold: Sold) -> dict[tuple[str, str], DeviceKind]:
    """(kind, name of the site) → the kind of its pool. Devices of one kind that the site counts by two names are two
    pools: a workspace buys one name or the other.

    What was sold keeps its slug. Of the rest the shortest name gets the kind's plain slug.
    """
    found: dict[tuple[str, str], DeviceKind] = {}
    used = {each.kind_slug for each in sold}
    earlier = _sold_earlier(pairs, sold)
    for slug, name in sorted(pairs, key=lambda pair: (pair[0], len(pair[1]), pair[1])):
        kind, called = pairs[slug, name], slugs_of(slug, name)
        contract = contract_of(slug, name, sold) or earlier.get((slug, name))
        free = (each for each in called if each not in used)
        own = contract.kind_slug if contract else next(free, called[-1])
        used.add(own)
        renamed = f"{kind.name} ({tail_of(name)})"
        found[slug, name] = kind if own == slug else replace(kind, slug=own, name=renamed)
    return found


def earlier_slug(slug: str) -> str:
    """As such a kind was called before names had the size of shares and the architecture."""
    return _SIZE.sub("-shared", _ARCH.sub("", slug))


def _sold_earlier(pairs: Iterable[tuple[str, str]], sold: Sold) -> dict[tuple[str, str], SoldPool]:
    """What was sold under an earlier name keeps it, unless something else here is called so; of shares it is for the size that they had
    first, as far as anybody knows it."""
    found: dict[tuple[str, str], SoldPool] = {}
    exact = [contract_of(slug, name, sold) for slug, name in pairs]
    for slug, name in sorted(pairs):
        contract = contract_of(earlier_slug(slug), name, sold)
        size = _SIZE.search(slug)
        if contract is None or contract in (*exact, *found.values()):
            continue
        if size is None or contract.shares in (0, int(size[1])):
            found[slug, name] = contract
    return found
