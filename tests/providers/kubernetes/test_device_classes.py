"""Which devices a class selects: our answer beside the scheduler's own, expression by expression."""

from collections.abc import Iterator

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.inventory import take
from gpuaas.providers.kubernetes.inventory.selectors import Selector
from tests.lab.fixtures import until

pytestmark = pytest.mark.lab

DRA = "/apis/resource.k8s.io/v1"
SPACE = "device-classes"
DRIVER = "gpu.example.com"
DEVICE: Object = {
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H200"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "cudaComputeCapability": {"version": "9.0.0"},
        "other.example.org/rack": {"string": "r7"},
    },
    "capacity": {"memory": {"value": "141Gi"}, "other.example.org/slots": {"value": "4"}},
}
OWN, CAPACITY = f'device.attributes["{DRIVER}"]', f'device.capacity["{DRIVER}"]'
EXPRESSIONS = (
    f'device.driver == "{DRIVER}"',
    'device.driver == "gpu.nvidia.com"',
    f'{OWN}.productName == "NVIDIA H200" && {OWN}.type == "gpu"',
    f"{OWN}.productName in ['NVIDIA H100', 'NVIDIA H200']",
    f'{OWN}.productName.lowerAscii().matches("^nvidia h[12]00$")',
    f'{OWN}.productName.startsWith("AMD") || {OWN}.index == 3',
    f'!({OWN}.productName.endsWith("H200"))',
    f"{OWN}.ecc && {OWN}.index >= 2 && {OWN}.index < 4",
    f"{OWN}.ecc ? {OWN}.index == 3 : false",
    f'{OWN}.cudaComputeCapability.compareTo(semver("8.9.0")) >= 0',
    f'{OWN}.cudaComputeCapability.isLessThan(semver("10.0.0"))',
    f'{OWN}.cudaComputeCapability.isGreaterThan(semver("9.0.0"))',
    f"{OWN}.cudaComputeCapability.major() == 9",
    f'{CAPACITY}.memory.compareTo(quantity("80Gi")) > 0',
    f'{CAPACITY}.memory.isLessThan(quantity("150000Mi"))',
    f'{CAPACITY}.memory == quantity("144384Mi")',
    'device.attributes["other.example.org"].rack == "r7"',
    'device.capacity["other.example.org"].slots.asInteger() == 4',
    f'has({OWN}.ecc) && !has({OWN}.nothing) && !has(device.attributes["nowhere.example.org"].rack)',
    # a fact that is not there: no device, and no error that reaches anybody
    f"{OWN}.nothing == 1",
    'device.attributes["nowhere.example.org"].rack != "r7"',
    f'has({OWN}.nothing) || {OWN}.productName == "NVIDIA H200"',
)


@pytest.fixture(scope="module")
def api(own_lab: Lab) -> Iterator[Api]:
    """A node of the lab's gets a second driver with a device for each expression."""
    made = Api(own_lab.kubeconfig.read_text())
    made.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    devices = [{"name": f"gpu-{number}", **DEVICE} for number in range(len(EXPRESSIONS))]
    spec = {
        "driver": DRIVER,
        "nodeName": "cpu-1",
        "pool": {"name": "cpu-1", "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    made.create(f"{DRA}/resourceslices", {"metadata": {"name": "of-a-driver"}, "spec": spec})
    until(
        lambda: made.find(f"/api/v1/namespaces/{SPACE}/serviceaccounts/default"),
        "an account for pods in the namespace",
    )
    yield made
    made.close()


def ask(api: Api, number: int, expression: str) -> Object:
    """A class of this expression, a claim of one device of it, and a pod that holds the claim."""
    name = f"class-{number}"
    body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    made = api.create(f"{DRA}/deviceclasses", body)
    request = {"name": "gpu", "exactly": {"deviceClassName": name}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    api.create(f"{DRA}/namespaces/{SPACE}/resourceclaims", claim)
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    holds = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    api.create(f"/api/v1/namespaces/{SPACE}/pods", {"metadata": {"name": name}, "spec": holds})
    return made


def scheduled(api: Api, name: str) -> bool:
    """What the scheduler says of the pod, once it says anything."""

    def verdict() -> str | None:
        pod = api.get(f"/api/v1/namespaces/{SPACE}/pods/{name}")
        found = [each for each in pod["status"].get("conditions") or [] if each["type"] == "PodScheduled"]
        return str(found[0]["status"]) if found else None

    return until(verdict, f"the scheduler has looked at {name}") == "True"


def test_a_class_selects_what_the_scheduler_gives(api: Api) -> None:
    device = {"name": "gpu-0", **DEVICE}
    classes = [ask(api, number, expression) for number, expression in enumerate(EXPRESSIONS)]
    ours = {
        text: Selector(each).selects(DRIVER, device) for text, each in zip(EXPRESSIONS, classes, strict=True)
    }
    theirs = {text: scheduled(api, f"class-{number}") for number, text in enumerate(EXPRESSIONS)}
    assert ours == theirs
    assert len(set(theirs.values())) == 2, "some are given and some are not"


def test_what_the_claims_hold_is_counted(api: Api) -> None:
    """Of the second driver's devices as many are in use as the test before was given."""
    held = sum(
        bool((claim.get("status") or {}).get("allocation"))
        for claim in api.items(f"{DRA}/namespaces/{SPACE}/resourceclaims")
    )
    seen = take(api, pool_label="gpuaas.io/pool")
    rows = [row for row in seen.nodes if row.name == "cpu-1"]
    assert sum(row.capacity for row in rows) == len(EXPRESSIONS)
    assert sum(row.allocated for row in rows) == held


def test_an_expression_beyond_us_sells_nothing() -> None:
    """Optional fields are a part of the language that we do not read: then the class is no GPU type."""
    spec = {"selectors": [{"cel": {"expression": f'{OWN}.?type.orValue("") == "gpu"'}}]}
    assert not Selector({"metadata": {"name": "new"}, "spec": spec}).selects(DRIVER, DEVICE)


def test_a_class_for_everything_sells_nothing() -> None:
    assert not Selector({"metadata": {"name": "all"}, "spec": {}}).selects(DRIVER, DEVICE)
