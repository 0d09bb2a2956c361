"""Which upgrades may be asked for."""

import pytest

from gpuaas.clusters.releases import release_order, skew_refuse
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterKind

K, S = ClusterKind.KUBERNETES, ClusterKind.SLURM


@pytest.mark.parametrize(
    ("kind", "held", "wanted", "pools"),
    [
        (K, "1.35.6", "1.35.9", {}),
        (K, "1.35.6", "1.36.3", {"gpu": "1.33.1"}),
        (K, "1.36.3", "1.36.3", {"gpu": "1.35.6"}),
        (K, "v1.35.6", "v1.36.0", {}),
        (S, "24.05.1", "24.11.2", {}),
        (S, "23.11.9", "24.11.0", {"gpu": "23.11.9"}),
    ],
)
def test_may(kind: ClusterKind, held: str, wanted: str, pools: dict[str, str]) -> None:
    skew_refuse(kind, held=held, wanted=wanted, pools=pools)


@pytest.mark.parametrize(
    ("kind", "held", "wanted", "pools", "words"),
    [
        (K, "1.36.3", "1.35.6", {}, "older"),
        (K, "1.36.3", "1.36.2", {}, "older"),
        (K, "1.34.9", "1.36.3", {}, "at a time"),
        (K, "1.35.6", "1.36.3", {"gpu": "1.32.0"}, "the pool gpu"),
        (S, "23.02.1", "24.11.0", {}, "at a time"),
        (S, "24.11.0", "25.05.0", {"gpu": "23.11.0"}, "the pool gpu"),
    ],
)
def test_may_not(kind: ClusterKind, held: str, wanted: str, pools: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        skew_refuse(kind, held=held, wanted=wanted, pools=pools)
    assert list(caught.value.fields) == ["release"]


def test_releases_are_ordered_by_numbers() -> None:
    kubernetes = [release_order(K, one) for one in ("1.9.0", "1.36.3", "1.36.10", "2.0.0")]
    assert kubernetes == sorted(kubernetes)
    slurm = ["23.02.7", "23.11.1", "24.05.0", "24.11.3", "25.05.1"]
    assert [release_order(S, one)[0] - release_order(S, slurm[0])[0] for one in slurm] == [0, 1, 2, 3, 4]
