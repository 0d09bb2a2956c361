"""Credentials that are none, and answers of the cloud in our words."""

import pytest

from gpuaas.core.errors import GpuaasError, NotFound, Permanent, QuotaRefused, Unauthorized, Unavailable
from gpuaas.providers.openstack.classes import BY_NAME
from gpuaas.providers.openstack.client import cloud_entry, refusal
from gpuaas.providers.openstack.flavors import gpus_of, specs_of
from gpuaas.providers.openstack.pci import product_named, product_of

GOOD = "clouds:\n  lab:\n    auth: {auth_url: 'http://127.0.0.1:1/v3', username: a, password: b}\n"


@pytest.mark.parametrize(
    ("text", "cloud", "words"),
    [
        ("", "", "names no cloud"),
        ("{", "", "not valid YAML"),
        ("clouds: {}", "", "names no cloud"),
        (GOOD + "  two:\n    auth: {}\n", "", "several clouds"),
        (GOOD, "other", "no cloud 'other'"),
        ("clouds:\n  lab: {auth: {auth_url: /etc/passwd}}", "", "not a URL"),
        (GOOD + "    cacert: /etc/passwd\n", "", "cacert"),
    ],
)
def test_what_is_no_clouds_yaml_is_refused(text: str, cloud: str, words: str) -> None:
    with pytest.raises(Unauthorized, match=words):
        cloud_entry({"clouds_yaml": text, "cloud": cloud})


def test_one_cloud_needs_no_name() -> None:
    assert cloud_entry({"clouds_yaml": GOOD})["auth"]["username"] == "a"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "", Unauthorized),
        (501, "Unable to get vnc console, functionality not implemented", Permanent),
        (403, "Policy doesn't allow it", Unauthorized),
        (403, "Project x is over a limit for [class:VGPU]", QuotaRefused),
        (403, "The number of defined ports: 1 is over the limit: 0", QuotaRefused),
        (409, "Quota exceeded for resources: ['port']", QuotaRefused),
        (404, "", NotFound),
        (409, "Conflict", Unavailable),
        (413, "Quota exceeded", QuotaRefused),
        (429, "", Unavailable),
        (503, "", Unavailable),
        (400, "no such thing", Permanent),
    ],
)
def test_an_answer_becomes_an_error_of_ours(status: int, message: str, kind: type[GpuaasError]) -> None:
    assert type(refusal(status, message)) is kind


def test_a_flavor_asks_for_as_many_as_it_sells() -> None:
    assert specs_of({"pci_passthrough:alias": "h100"}, 4) == {"pci_passthrough:alias": "h100:4"}
    assert gpus_of({"pci_passthrough:alias": "h100:4,a100"}, BY_NAME) == {"h100": 4, "a100": 1}
    assert gpus_of({"resources:VGPU": "2", "resources:VCPU": "4", "trait:X": "required"}, BY_NAME) == {
        "VGPU": 2
    }
    with pytest.raises(Permanent, match="aliases"):
        specs_of({}, 1)


def test_cards_are_known_by_their_id_and_by_their_model() -> None:
    assert product_of("CUSTOM_PCI_10DE_2330") == ("NVIDIA-H100-80GB-HBM3", 81559)
    assert product_of("CUSTOM_PCI_1002_74A1") == ("PCI-1002-74A1", 0)
    assert product_named("L40S") == ("NVIDIA-L40S", 46068)
