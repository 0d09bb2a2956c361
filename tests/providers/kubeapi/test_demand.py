"""Whom a waiting pod counts for, and what counts as used."""

from typing import Any

from gpuaas.providers.kubeapi.demand import Load, Workers, count

GPU = "nvidia.com/gpu"
POOLS = (Workers("small", GPU, 1), Workers("large", GPU, 8))
PLACES = {"s-1": "small", "l-1": "large", "head": ""}
LABELS = {"s-1": {"card": "l40s"}, "l-1": {"card": "h100"}}


def pod(gpus: int, *, node: str = "", phase: str = "", **spec: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "a", "resources": {"limits": {GPU: str(gpus)}}}] if gpus else [{}]}
    return {"spec": {**body, "nodeName": node, **spec}, "status": {"phase": phase}}


def told(*pods: dict[str, Any], places: dict[str, str] = PLACES) -> dict[str, Load]:
    return count(pods, LABELS, places, POOLS)


def test_what_runs_is_used_and_what_is_over_is_not() -> None:
    found = told(
        pod(1, node="s-1", phase="Running"),
        pod(4, node="l-1", phase="Pending"),
        pod(8, node="l-1", phase="Succeeded"),
        pod(2, node="head"),
        pod(0, node="l-1"),
    )
    assert found == {"small": Load(1, 0, 0), "large": Load(4, 0, 0)}


def test_who_waits_counts_once_at_the_first_pool_that_fits() -> None:
    found = told(pod(1), pod(2), pod(1, nodeSelector={"card": "h100"}), pod(16), pod(0))
    assert found == {"small": Load(0, 1, 1), "large": Load(0, 3, 2)}


def test_who_is_held_back_or_fits_nowhere_asks_for_nothing() -> None:
    found = told(pod(1, schedulingGates=[{"name": "later"}]), pod(1, nodeSelector={"card": "a100"}))
    assert {(one.pending, one.queued) for one in found.values()} == {(0, 0)}


def test_a_pool_without_nodes_takes_whoever_it_has_the_gpus_for() -> None:
    found = told(pod(1, nodeSelector={"card": "a100"}), places={"l-1": "large"})
    assert found["small"] == Load(0, 1, 1)


def test_of_a_pool_without_nodes_the_labels_that_workers_get_are_known() -> None:
    pools = [Workers(each.pool, GPU, each.gpus, {"pool": each.pool}) for each in POOLS]
    found = count([pod(1, nodeSelector={"pool": "large", "card": "h100"})], {}, {}, pools)
    assert found == {"small": Load(0, 0, 0), "large": Load(0, 1, 1)}
