"""The cloud is real where it matters: a GPU beyond the limit is refused by Nova itself, one within it is given."""

import json
from typing import Any

import pytest
import requests

from deploy.lab.errors import LabError
from deploy.lab.openstack.settings import resource_class, topology_load
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud

pytestmark = pytest.mark.openstack


def test_every_gpu_of_the_topology_is_in_placement(cloud: Cloud) -> None:
    found = cloud.usage_totals()
    assert found["CUSTOM_PCI_10DE_20B0"] == 10
    assert found["CUSTOM_PCI_10DE_2330"] == 8
    assert found["CUSTOM_PCI_10DE_25B7"] == 8
    assert found["VGPU"] == 8


def test_nova_refuses_a_gpu_beyond_the_limit_and_gives_one_within_it(cloud: Cloud) -> None:
    flavor = cloud.gpu_flavor("h100", 1)
    project = cloud.project()
    cloud.grant(flavor, project)
    refused = cloud.boot(project, flavor)
    assert refused.status_code == 403, refused.text
    assert "CUSTOM_PCI_10DE_2330 is over limit of 0" in refused.text
    cloud.limit(project, "class:CUSTOM_PCI_10DE_2330", 1)
    booted = cloud.boot(project, flavor)
    assert booted.status_code == 202, booted.text
    server = booted.json()["server"]["id"]
    assert until(lambda: cloud.server_status(project, server) == "ACTIVE", "the server is active")
    again = cloud.boot(project, flavor)
    assert again.status_code == 403, again.text


def test_a_service_that_was_killed_comes_back(cloud: Cloud) -> None:
    """Not Placement: a machine of the test before may still be going, and would keep its GPU for ever."""
    cloud.lab.stop_program("glance", kill=True)
    try:
        with pytest.raises(requests.ConnectionError):
            cloud.call("GET", "image", "/v2/images")
    finally:
        cloud.lab.start_program("glance")
    assert cloud.call("GET", "image", "/v2/images?name=tiny").json()["images"]


def test_a_topology_that_means_nothing_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "topology.json"
    for text in ("{", "{}", json.dumps({"models": {}, "hosts": [{"name": "a", "gpus": [{"model": "b"}]}]})):
        path.write_text(text)
        with pytest.raises(LabError):
            topology_load(path)
    assert (
        resource_class({"kind": "pci", "vendor_id": "10de", "product_id": "2330"}) == "CUSTOM_PCI_10DE_2330"
    )
    assert resource_class({"kind": "vgpu"}) == "VGPU"
