"""The classes for clouds that nobody has here, against the released types of their providers on a real API server,
with strict fields: what is shipped, and what Cluster API's own topology makes of it for the least and for the most
that an order may choose."""

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.lab.cluster_api.providers import Topology, core_types, types_of
from deploy.lab.errors import LabError
from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import until

CLASSES = Path(__file__).resolve().parents[3] / "deploy" / "cluster-classes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLOUDS = ["aws", "azure"]
STRICT = {"fieldValidation": "Strict"}
# what a text with a pattern may be at most; anything else is as long as it may be
SAMPLES: dict[str, dict[str, Any]] = {
    "image": {"aws": "ami-0123456789abcdef0"},
    "vpc": {"aws": "vpc-0123456789abcdef0"},
    "subnets": {"aws": [f"subnet-0123456789abcde{number:02x}" for number in range(16)]},
    "capacityReservation": {"aws": "cr-0123456789abcdef0"},
    "sshPublicKey": {"azure": "c3NoLWVkMjU1MTkgQUFBQQ=="},
}


@pytest.fixture(scope="module")
def types() -> list[Object]:
    return [*core_types(), *(one for cloud in CLOUDS for one in types_of(cloud))]


@pytest.fixture(scope="module")
def api(types: list[Object], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A control plane of its own: no controller and no webhook of these kinds is there."""
    lab = Lab(state_dir=tmp_path_factory.mktemp("classes"))
    try:
        lab.up()
    except LabError as error:
        lab.down(purge=True)
        pytest.fail(str(error), pytrace=False)
    made = Api(lab.kubeconfig.read_text())
    for manifest in types:
        made.apply(CRDS, manifest)
    for manifest in types:
        path = f"{CRDS}/{manifest['metadata']['name']}"
        until(partial(_is_served, made, path), "types are served")
    for name in ("cluster-classes", "tenant"):
        made.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield made
    made.close()
    lab.down(purge=True)


def _is_served(api: Api, path: str) -> bool:
    told = (api.get(path).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in told)


@pytest.fixture(scope="module")
def topology() -> Topology:
    made = Topology()
    made.ensure(print)
    return made


def shipped(cloud: str) -> list[Object]:
    return list(yaml.safe_load_all((CLASSES / f"{cloud}.yaml").read_text()))


def admit(api: Api, found: Object) -> Object:
    plural = found["kind"].lower() + ("es" if found["kind"].endswith("s") else "s")
    namespace = found["metadata"]["namespace"]
    path = f"/apis/{found['apiVersion']}/namespaces/{namespace}/{plural}"
    return api.create(path, found, dryRun="All", **STRICT)


def refusals(api: Api, objects: list[Object]) -> list[str]:
    said = []
    for found in objects:
        try:
            admit(api, found)
        except GpuaasError as error:
            said.append(f"{found['kind']}: {error.message}")
    return said


def variables(cloud: str) -> list[Object]:
    found: list[Object] = shipped(cloud)[-1]["spec"]["variables"]
    return found


def least(cloud: str) -> dict[str, Any]:
    """What has to be given, as short as it may be, and defaults, as the webhook fills them in."""
    found = {}
    for one in variables(cloud):
        schema = one["schema"]["openAPIV3Schema"]
        if "default" in schema:
            found[one["name"]] = schema["default"]
        elif one["required"]:
            found[one["name"]] = _sample(cloud, one["name"], schema, most=False)
    return found


def most(cloud: str) -> dict[str, Any]:
    return {
        one["name"]: _sample(cloud, one["name"], one["schema"]["openAPIV3Schema"], most=True)
        for one in variables(cloud)
    }


def nasty(cloud: str) -> dict[str, Any]:
    """Texts without a pattern that would be something else in YAML."""
    text = "'a: {b}\" # &x \\ | >"
    return {
        name: text[: len(value)] if isinstance(value, str) and value.startswith("xxx") else value
        for name, value in most(cloud).items()
    }


def _sample(cloud: str, name: str, schema: Object, *, most: bool) -> Any:
    if cloud in SAMPLES.get(name, {}):
        return SAMPLES[name][cloud]
    match schema["type"]:
        case "string":
            return "x" * (schema["maxLength"] if most else schema["minLength"])
        case "integer":
            return schema["maximum" if most else "minimum"]
        case "boolean":
            return most
    raise AssertionError(f"{name} needs a sample")


def cluster(cloud: str, chosen: dict[str, Any]) -> Object:
    """As the driver orders it: the pool's flavor is the pool's own."""
    given = [{"name": name, "value": value} for name, value in chosen.items() if name != "flavor"]
    pool = {"class": "worker", "name": "gpu", "replicas": 2}
    overrides = [{"name": "flavor", "value": chosen["flavor"]}]
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "c-0a1b2c3d-train", "namespace": "tenant", "uid": str(uuid.uuid4())},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "topology": {
                "classRef": {"name": f"gpu-{cloud}", "namespace": "cluster-classes"},
                "version": "v1.35.6",
                "controlPlane": {"replicas": 3},
                "workers": {"machineDeployments": [{**pool, "variables": {"overrides": overrides}}]},
                "variables": given,
            },
        },
    }


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_object_that_is_shipped_is_taken(api: Api, cloud: str) -> None:
    assert refusals(api, shipped(cloud)) == []


@pytest.mark.parametrize("choose", [least, most, nasty])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_the_topology_makes_of_it_is_taken(
    api: Api, types: list[Object], topology: Topology, cloud: str, choose: Any
) -> None:
    chosen = choose(cloud)
    (made,) = topology.desired(types, shipped(cloud), [cluster(cloud, chosen)])
    assert isinstance(made, list), made
    assert refusals(api, made) == []
    kinds = {one["kind"] for one in made}
    name = {"aws": "AWS", "azure": "Azure"}[cloud]
    assert {
        f"{name}Cluster",
        f"{name}MachineTemplate",
        "KubeadmControlPlane",
        "KubeadmConfigTemplate",
    } <= kinds
    assert "MachineHealthCheck" in kinds
    said = str([one for one in made if one["kind"] != "Cluster"])
    missing = [key for key, value in chosen.items() if type(value) is str and repr(value)[1:-1] not in said]
    assert missing == [], "what was chosen is in what was made"
    assert "none" not in {*_values(made)}, "nothing of the template's placeholders is left"


def _values(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for value in part.values():
            yield from _values(value)
    elif isinstance(part, list):
        for value in part:
            yield from _values(value)
    else:
        yield str(part)


def test_a_server_that_is_strict_refuses_what_nobody_knows(api: Api) -> None:
    """Else the tests above could not fail."""
    found = shipped("aws")[0]
    found["spec"]["template"]["spec"]["regoin"] = "x"
    assert "regoin" in refusals(api, [found])[0]
