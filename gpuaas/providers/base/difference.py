"""The difference between a cluster's desired spec and its last confirmed one, from which every driver's plan starts; and the words
with which steps of all drivers report machines."""

from dataclasses import dataclass

from gpuaas.providers.base.cluster import ClusterSpec, NodePool

POOL_STEP, ADDON_STEP = "pool:", "addon:"


@dataclass(frozen=True)
class Difference:
    """`before` = None: nothing is confirmed yet, so all of `wanted` is new."""

    wanted: ClusterSpec
    before: ClusterSpec | None

    def other_counts(self) -> list[NodePool]:
        """Pools whose size changes, shrinking ones first: limits are exact, so growing pools need what those return."""
        held = self._held()
        other = [
            pool
            for pool in self.wanted.pools
            if pool.name not in held or held[pool.name].flavor != pool.flavor
        ]
        return sorted(other, key=lambda pool: pool.flavor.count > self._count(pool.name))

    def other_releases(self) -> list[NodePool]:
        held = self._held()
        return [
            pool
            for pool in self.wanted.pools
            if pool.name not in held or held[pool.name].release != pool.release
        ]

    def control_moves(self) -> bool:
        """Whether the control plane changes its release; it comes first, since no worker may be newer."""
        moved = self.before is None or self.before.release != self.wanted.release
        return moved and not self.wanted.is_burst

    def going(self) -> dict[str, int]:
        """Number of workers to be removed, by pool; what runs on them ends."""
        fewer = {pool.name: self._count(pool.name) - pool.flavor.count for pool in self.wanted.pools}
        return {name: count for name, count in fewer.items() if count > 0}

    def was(self, name: str) -> NodePool | None:
        return self._held().get(name)

    def _held(self) -> dict[str, NodePool]:
        return {pool.name: pool for pool in self.before.pools} if self.before else {}

    def _count(self, name: str) -> int:
        was = self.was(name)
        return was.flavor.count if was else 0


def machines_run(count: int, release: str) -> str:
    return f"1 machine runs {release}" if count == 1 else f"{count} machines run {release}"


def all_ready(machines: int) -> str:
    return "1 machine is ready" if machines == 1 else f"{machines} machines are ready"
