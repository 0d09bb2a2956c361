"""How many objects a workspace may have: a site's option, counted, and said in words when it is used up."""

from typing import Any

import pytest

from gpuaas.core.declaration import declaration_compile
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import document_check
from gpuaas.providers.kubeapi import bounds, manifests, pods
from gpuaas.providers.kubeapi.guards.roles import cluster_roles
from gpuaas.providers.kubernetes.kind import KINDS
from tests.providers.kubernetes.conftest import make_spec

OPTIONS = declaration_compile(KINDS[0].options or {})


def hard(options: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = manifests.quota(make_spec(), {}, manifests.Openings.read(options).objects)[
        "spec"
    ]["hard"]
    return found


def test_an_operator_sets_some_and_the_rest_is_as_usual() -> None:
    usual, asked = hard({}), hard({"object_bounds": {"jobs": 2000, "pods": 20}})
    assert (usual["count/jobs.batch"], usual["count/pods"], usual["pods"]) == ("500", "1500", "250")
    assert {key: value for key, value in asked.items() if value != usual[key]} == {
        "count/jobs.batch": "2000",
        "count/pods": "20",
    }
    assert {"services.loadbalancers", "services.nodeports"} <= {
        key for key, value in asked.items() if value == "0"
    }


def test_whatever_members_may_make_is_bounded() -> None:
    """One kind without a bound would be enough to fill the site's etcd."""
    admin = next(role for role in cluster_roles() if role["metadata"]["name"].endswith("-admin"))
    made = {
        f"count/{resource}.{group}" if group else resource
        for rule in admin["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "create" in rule["verbs"] and "/" not in resource
    }
    counted = {*manifests.Openings.read({}).objects, *manifests.DRA_COUNTS}
    assert {key for key in made if not {key, f"count/{key}"} & counted} == set()


@pytest.mark.parametrize(
    "given",
    [{"jobs": 9}, {"jobs": 0}, {"jobs": -1}, {"jobs": 10**6}, {"jobs": "many"}, {"jobs": 10.5}, {"gpus": 10}],
)
def test_what_is_no_bound_is_refused_at_its_field(given: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        document_check(OPTIONS, {"object_bounds": given})
    assert all("object_bounds" in name for name in refused.value.fields)


def test_what_the_site_counts_is_told() -> None:
    status = {"hard": {"count/jobs.batch": "20", "pods": "1k"}, "used": {"count/jobs.batch": "16"}}
    found = {one.name: (one.used, one.most) for one in bounds.observed(status)}
    assert found == {"jobs": (16, 20), "running_pods": (0, 1000)}
    assert bounds.observed({}) == ()


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("count/pods", "ttlSecondsAfterFinished"),
        ("count/jobs.batch", "ttlSecondsAfterFinished"),
        ("services", "ask an operator"),
    ],
)
def test_a_refusal_says_what_to_do(key: str, remedy: str) -> None:
    counted = f"requested: {key}=1, used: {key}=500, limited: {key}=500"
    said = f'pods "a" is forbidden: exceeded quota: gpuaas, {counted}'
    words = pods.refusal_in_words(said)
    assert "quota 500" in words.replace(f"{key}=", "")
    assert remedy in words
    bought = said.replace(key, "requests.nvidia.com/gpu")
    assert remedy not in pods.refusal_in_words(bought)
