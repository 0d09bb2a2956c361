"""What a workspace has bought, what is taken of it by what lives inside it, and what is free.

Each room that keeps something inside workspaces adds to TAKERS how to sum up what it takes, in the `ready` of its app; so
together they never take more than the workspace bought, and none of them knows the others.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models.functions import Least

from gpuaas.catalog.models import GpuPool
from gpuaas.core.errors import Invalid, Mistakes, QuotaRefused
from gpuaas.workspaces.models import Workspace

# of an order
MOST = {"gpus": 64, "vcpus": 1024, "memory_gib": 16384, "home_gib": 65536}
LABELS = {"gpus": "GPUs", "vcpus": "vCPUs", "memory_gib": "Memory in GiB", "home_gib": "Home in GiB"}
WORDS = {"vcpus": "vCPUs", "memory_gib": "GiB of memory", "home_gib": "GiB of storage"}


def size_check(name: str, value: Any) -> int:
    """Of an order's field. Raises Invalid at it."""
    least = 0 if name == "gpus" else 1
    if type(value) is not int or not least <= value <= MOST[name]:
        raise Invalid.field(name, f"{LABELS[name]} must be a whole number from {least} to {MOST[name]:,}")
    return value


@dataclass(frozen=True)
class Taken:
    """amounts: by the names of WORDS. gpus: by the key of their pool."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[Any, int] = field(default_factory=dict)


# of a workspace, without the row that asks (None: with all)
TAKERS: list[Callable[[Workspace, Any], Taken]] = []


@dataclass(frozen=True)
class Amount:
    bought: int
    taken: int

    @property
    def free(self) -> int:
        return max(self.bought - self.taken, 0)


@dataclass(frozen=True)
class Shortage:
    """Of what more is asked for than is free. name: the field of the order; what: its unit, in words."""

    name: str
    what: str
    resource: str
    asked: int
    amount: Amount

    @property
    def is_lasting(self) -> bool:
        """Whether the workspace has not bought as much, so that waiting does not help."""
        return self.asked > self.amount.bought

    @property
    def waits(self) -> str:
        """`waits for 2 H100 SXM 80 GB: 1 of 4 is free`"""
        amount = self.amount
        if self.is_lasting:
            return f"waits for {self.asked:,} {self.what}: the workspace has bought {amount.bought:,}"
        verb = "is" if amount.free == 1 else "are"
        return f"waits for {self.asked:,} {self.what}: {amount.free:,} of {amount.bought:,} {verb} free"

    def refusal(self, words: str) -> QuotaRefused:
        detail = {
            "field": self.name,
            "resource": self.resource,
            "limit": self.amount.bought,
            "used": self.amount.taken,
            "asked": self.asked,
            "left": self.amount.free,
        }
        return QuotaRefused(words, detail=detail, fields={self.name: [words]})


@dataclass(frozen=True)
class Room:
    """amounts: by the field of an order; pools: GPUs, by their pool."""

    amounts: dict[str, Amount]
    pools: dict[GpuPool, Amount]

    def shortages(self, pool: GpuPool | None, wanted: Mapping[str, int]) -> Iterator[Shortage]:
        """Each field that asks for more than is free, GPUs first. `wanted`: by field, `gpus` among them."""
        if pool is not None:
            name, amount = pool.gpu_type.name, self.pools.get(pool, Amount(0, 0))
            if wanted["gpus"] > amount.free:
                yield Shortage("gpus", name, pool.gpu_type.slug, wanted["gpus"], amount)
        for key, asked in wanted.items():
            if key != "gpus" and asked > self.amounts[key].free:
                yield Shortage(key, WORDS[key], key, asked, self.amounts[key])

    def shortage(self, pool: GpuPool | None, wanted: Mapping[str, int]) -> Shortage | None:
        return next(self.shortages(pool, wanted), None)

    def times(self, pool: GpuPool | None, wanted: Mapping[str, int]) -> int:
        """How often as much fits into what is free."""
        free = {**{name: each.free for name, each in self.amounts.items()}, "gpus": 0}
        if pool is not None:
            free["gpus"] = self.pools.get(pool, Amount(0, 0)).free
        return min((free[name] // asked for name, asked in wanted.items() if asked), default=0)

    def judge(self, mistakes: Mistakes, pool: GpuPool | None, wanted: Mapping[str, int]) -> None:
        """Adds each field that asks for more than is free."""
        for found in self.shortages(pool, wanted):
            amount = found.amount
            with mistakes:
                raise found.refusal(
                    f"the workspace has bought {amount.bought:,} {found.what}, and its other environments and jobs take "
                    f"{amount.taken:,}: {amount.free:,} {'is' if amount.free == 1 else 'are'} free"
                )

    def less(self, pool: GpuPool | None, wanted: Mapping[str, int]) -> "Room":
        """What is left once that is taken as well."""
        amounts = {
            name: replace(each, taken=each.taken + wanted.get(name, 0)) for name, each in self.amounts.items()
        }
        pools = {
            each: replace(amount, taken=amount.taken + (wanted["gpus"] if each == pool else 0))
            for each, amount in self.pools.items()
        }
        return Room(amounts, pools)

    def more(self, pool: GpuPool | None, given: Mapping[str, int]) -> "Room":
        """What is left once that is given back."""
        return self.less(pool, {name: -each for name, each in given.items()})

    @property
    def empty(self) -> "Room":
        """As it is while nothing is taken."""
        amounts = {name: replace(each, taken=0) for name, each in self.amounts.items()}
        return Room(amounts, {pool: replace(each, taken=0) for pool, each in self.pools.items()})

    def pool_of(self, gpu: str) -> GpuPool:
        """Of a GPU type by its slug; "" where there is one alone. Raises Invalid at `gpu`."""
        pools = {pool.gpu_type.slug: pool for pool in self.pools}
        if gpu and gpu not in pools:
            has = ", ".join(sorted(pools)) or "none"
            raise Invalid.field("gpu", f"the workspace has not bought such GPUs; it has bought {has}")
        if not gpu and len(pools) != 1:
            raise Invalid.field("gpu", f"say of which GPU type: {', '.join(sorted(pools))}")
        return pools[gpu] if gpu else next(iter(pools.values()))


def room_of(*, workspace: Workspace, besides: Any = None) -> Room:
    """`besides`: the row that asks, which is not counted. Of a workspace that becomes smaller, what will be left. One query, and
    those of the TAKERS.

    Lock the workspace first (`workspace_lock`), and take of it in the same transaction.
    """
    own = workspace.flavors.select_related("flavor__pool__gpu_type").filter(confirmed__gt=0, count__gt=0)
    rows = list(own.annotate(there=Least("count", "confirmed")))
    bought: Counter[GpuPool] = Counter()
    for row in rows:
        bought[row.flavor.pool] += row.flavor.gpus * row.there
    taken, held = Counter[str](), Counter[Any]()
    for taker in TAKERS:
        found = taker(workspace, besides)
        taken.update(found.amounts)
        held.update(found.gpus)
    memory = sum((row.flavor.memory_gib - row.flavor.hugepages_gib) * row.there for row in rows)
    amounts = {
        "vcpus": Amount(sum(row.flavor.vcpus * row.there for row in rows), taken["vcpus"]),
        "memory_gib": Amount(memory, taken["memory_gib"]),
        "home_gib": Amount(workspace.storage_gib, taken["home_gib"]),
    }
    return Room(amounts, {pool: Amount(count, held[pool.pk]) for pool, count in bought.items()})
