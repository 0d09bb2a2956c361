"""What a template may say to the driver, and what the plan says to the one who orders; no site is asked."""

import base64
import uuid
from dataclasses import replace

import pytest
import yaml

from gpuaas.core.errors import Invalid, Permanent
from gpuaas.providers.base import (
    Change,
    ClusterKind,
    ClusterSpec,
    Connection,
    ControlPlane,
    FlavorAmount,
    NodePool,
)
from gpuaas.providers.kubeapi.names import is_workspace_namespace
from gpuaas.providers.vcluster import manifests, names
from gpuaas.providers.vcluster.driver import VirtualClusterDriver
from gpuaas.providers.vcluster.settings import settings_read

HOST = {"host": "{name}.vc.example.org"}
H100 = FlavorAmount("h100.2", 2, 2, 8, 64, 100, "nvidia.com/gpu", {"gpuaas.io/pool": "h100"})


def spec(**changes: object) -> ClusterSpec:
    made = ClusterSpec(
        id=uuid.UUID(int=7),
        external_name="c-00000007-train",
        project_slug="weather-lm",
        organization_slug="climate",
        kind=ClusterKind.KUBERNETES,
        release="1.33.5",
        control_plane=ControlPlane(1, 2, 4, 10),
        pools=(NodePool("gpu", H100, "1.33.5"),),
        settings=HOST,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # a test's own changes


def driver() -> VirtualClusterDriver:
    return VirtualClusterDriver(
        Connection(site_id=uuid.UUID(int=1), site_slug="k", endpoint="", credentials={})
    )


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "host"),
        ({"host": "https://x"}, "host"),
        ({"host": "{name}.{name}.x"}, "host"),
        ({"host": "{other}.x"}, "host"),
        ({"host": 7}, "host"),
        ({**HOST, "hosts": "x"}, "hosts"),
        ({**HOST, "image": "A b"}, "image"),
        ({**HOST, "dns_image": "A b"}, "dns_image"),
        ({**HOST, "hosts_image": "alpine:3.20"}, "hosts_image"),
        ({**HOST, "hosts_image": "mirror.example/alpine"}, "hosts_image"),
        ({**HOST, "routers": ["x"]}, "routers"),
        ({**HOST, "routers": {"a b": "x"}}, "routers.a b"),
        ({**HOST, "annotations": {"a": 1}}, "annotations.a"),
        ({**HOST, "storage_class": "Fast!"}, "storage_class"),
        ({**HOST, "addons": {"x": "{"}}, "addons.x"),
        ({**HOST, "addons": {"x": "kind: ConfigMap"}}, "addons.x"),
        ({**HOST, "addons": {"x": "---"}}, "addons.x"),
        ({**HOST, "addons": {"x": 1}}, "addons.x"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place(given: dict[str, object], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        VirtualClusterDriver.settings_check(ClusterKind.KUBERNETES, given)
    assert f"settings.{place}:" in str(caught.value.detail) + caught.value.message


def test_the_namespace_has_a_name_that_the_guards_cover() -> None:
    assert names.space("c-00000007-train") == "gpu-00000007-train"
    assert is_workspace_namespace(names.space("c-00000007-train"))


def test_more_than_one_control_plane_is_refused_when_it_is_planned() -> None:
    with pytest.raises(Permanent, match="one control plane"):
        driver().plan(Change.CREATE, spec(control_plane=ControlPlane(3, 2, 4, 10)))


def test_two_models_under_one_name_are_refused_when_it_is_planned() -> None:
    other = replace(H100, selector={"gpuaas.io/pool": "a100"})
    with pytest.raises(Permanent, match="node pools"):
        driver().plan(
            Change.CREATE,
            spec(pools=(NodePool("gpu", H100, "1.33.5"), NodePool("more", other, "1.33.5"))),
        )


def test_the_configuration_copies_pods_and_nothing_of_the_sites_own() -> None:
    [config] = [
        body for _, body in manifests.objects(spec(), settings_read(HOST), []) if body["kind"] == "Secret"
    ]
    told = yaml.safe_load(base64.b64decode(config["data"]["config.yaml"]))
    host = told["sync"]["toHost"]
    assert host["pods"]["enabled"]
    assert not {"ingresses", "networkPolicies", "namespaces", "serviceAccounts", "persistentVolumes"} & set(
        host
    )
    assert "nodes" not in told["sync"]["fromHost"]
    assert told["exportKubeConfig"]["server"] == "https://c-00000007-train.vc.example.org"
    assert told["controlPlane"]["proxy"]["extraSANs"] == ["c-00000007-train.vc.example.org"]


def test_only_the_control_plane_may_reach_the_sites_api_server() -> None:
    settings = settings_read({**HOST, "routers": {"kubernetes.io/metadata.name": "ingress"}})
    found = [
        body
        for _, body in manifests.objects(spec(), settings, ["10.0.0.1/32"])
        if body["kind"] == "NetworkPolicy"
    ]
    assert [one["spec"]["podSelector"] for one in found] == [
        {"matchLabels": {names.CONTROL: "c-00000007-train"}}
    ]
    assert found[0]["spec"]["egress"][0]["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert found[0]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8443}]


def test_a_site_without_the_internet_pulls_everything_from_its_mirror() -> None:
    given = {
        "image": "mirror.example:5000/vcluster-oss:0.30.0",
        "kubernetes_image": "mirror.example:5000/kubernetes:v{release}",
        "dns_image": "mirror.example:5000/coredns:1.12.1",
        "hosts_image": "mirror.example:5000/library/alpine:3.20",
    }
    wanted = spec(settings={**HOST, **given})
    made = yaml.safe_dump([body for _, body in manifests.objects(wanted, settings_read(wanted.settings), [])])
    inside = manifests.configuration(wanted, settings_read(wanted.settings))
    said = made + yaml.safe_dump(inside)
    for registry in ("ghcr.io", "gcr.io", "docker.io"):
        assert registry not in said
    assert inside["controlPlane"]["coredns"]["deployment"]["image"] == given["dns_image"]
    image = inside["sync"]["toHost"]["pods"]["rewriteHosts"]["initContainer"]["image"]
    assert image == {"registry": "mirror.example:5000", "repository": "library/alpine", "tag": "3.20"}
    plain = manifests.configuration(spec(), settings_read(HOST))
    assert "image" not in plain["controlPlane"]["coredns"]["deployment"], "what the control plane brings"
