"""Which releases may follow each other, and how far workers may be behind.

Kubernetes' version skew policy: a control plane goes up one minor version at a time; kubelets are at most three minor
versions older, never newer. Slurm: controllers go up by at most two major releases; slurmd is at most two older,
never newer.
"""

import re

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterKind

KUBERNETES = re.compile(r"v?(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
SLURM = re.compile(r"(\d{2})\.(\d{2})(?:\.(\d{1,3}))?")
STEP_MAX = {ClusterKind.KUBERNETES: 1, ClusterKind.SLURM: 2}
BEHIND_MAX = {ClusterKind.KUBERNETES: 3, ClusterKind.SLURM: 2}
WORD = {ClusterKind.KUBERNETES: "minor version", ClusterKind.SLURM: "major release"}


def release_order(kind: ClusterKind, release: str) -> tuple[int, int]:
    """(generation, patch): generations are counted one by one. Raises ValueError unless it is a release of its kind."""
    match = (KUBERNETES if kind is ClusterKind.KUBERNETES else SLURM).fullmatch(release)
    if match is None:
        shape = "1.36.3" if kind is ClusterKind.KUBERNETES else "25.05.3"
        raise ValueError(f"{release[:40]!r} is not a release of {kind.value}; they have the form {shape}")
    first, second, patch = (int(part or 0) for part in match.groups())
    if kind is ClusterKind.KUBERNETES:
        return first * 1000 + second, patch
    return first * 2 + (second > 6), patch  # one in the first half of a year, one in the second


def skew_refuse(kind: ClusterKind, *, held: str, wanted: str, pools: dict[str, str]) -> None:
    """Raises Invalid on `release` if the control plane cannot go there, or would leave pools too far behind.

    pools: the release at which each would be afterwards.
    """
    old, new = release_order(kind, held), release_order(kind, wanted)
    word, most = WORD[kind], STEP_MAX[kind]
    if new < old:
        raise Invalid.field("release", f"{wanted} is older than {held}: a cluster cannot be downgraded")
    if new[0] - old[0] > most:
        raise Invalid.field(
            "release",
            f"from {held} the control plane can go up {most} {word} at a time: choose a release in "
            "between first",
        )
    for name, release in sorted(pools.items()):
        behind = new[0] - release_order(kind, release)[0]
        if behind > BEHIND_MAX[kind]:
            raise Invalid.field(
                "release",
                f"the pool {name} runs {release}, more than {BEHIND_MAX[kind]} {word}s behind {wanted}: upgrade it first",
            )
