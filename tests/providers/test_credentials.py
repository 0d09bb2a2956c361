"""What opens a site is judged before it is saved, by every driver; nobody is asked."""

from typing import Any

import pytest

from gpuaas.core.errors import Invalid
from gpuaas.providers.registry import credentials_check, driver_names
from tests.factories.credentials import kubeconfig_made

KUBERNETES = ("kubernetes", "openshift", "bare-metal")
CLUSTER = {"server": "https://k8s.invalid:6443"}


def user(**given: Any) -> str:
    return kubeconfig_made(users=[{"name": "u", "user": given}])


NONE: dict[str, tuple[str, str]] = {
    "another document": ("hello: world", "names no cluster"),
    "a word": ("hello", "names no cluster"),
    "not yaml": ("{{", "not valid YAML"),
    "nothing": ("", "needs a kubeconfig"),
    "no users": (kubeconfig_made(users=None), "names no user"),
    "no contexts": (kubeconfig_made(contexts=[]), "names no context"),
    "no current context": (kubeconfig_made(current_context=None), "no current-context"),
    "another context": (kubeconfig_made(current_context="y"), "names the context 'y'"),
    "another cluster": (kubeconfig_made(clusters=[{"name": "d", "cluster": CLUSTER}]), "the cluster 'c'"),
    "clusters of another kind": (kubeconfig_made(clusters=["c"]), "clusters are malformed"),
    "no address": (kubeconfig_made(clusters=[{"name": "c", "cluster": {"server": "k8s"}}]), "needs a server"),
    "nobody": (kubeconfig_made(users=[{"name": "u"}]), "neither a token nor"),
    "half a certificate": (user(**{"client-certificate-data": "QQ=="}), "neither a token nor"),
    "cut off": (user(**{"client-certificate-data": "QQ==", "client-key-data": "Q"}), "not base64"),
    "a program": (user(token="t", exec={"command": "sh"}), "contains exec"),
}


@pytest.mark.parametrize("driver", KUBERNETES)
@pytest.mark.parametrize("what", NONE)
def test_what_is_no_kubeconfig_is_refused_beside_the_field(driver: str, what: str) -> None:
    text, words = NONE[what]
    with pytest.raises(Invalid, match=words) as refused:
        credentials_check(driver, {"kubeconfig": text})
    assert list(refused.value.fields) == ["credentials"]


@pytest.mark.parametrize("driver", KUBERNETES)
def test_a_kubeconfig_is_taken_and_nothing_beside_it(driver: str) -> None:
    credentials_check(driver, {"kubeconfig": kubeconfig_made()})
    pair = {"client-certificate-data": "QQ==", "client-key-data": "QQ=="}
    credentials_check(driver, {"kubeconfig": user(**pair)})
    for given in ({}, {"token": "t"}, {"kubeconfig": kubeconfig_made(), "cloud": "x"}, {"kubeconfig": 7}):
        with pytest.raises(Invalid):
            credentials_check(driver, given)


AUTH = "clouds: {c: {auth: {auth_url: 'https://k.invalid/v3'%s}}}"


@pytest.mark.parametrize("said", ["", ", username: u", ", password: p", ", application_credential_id: i"])
def test_a_cloud_that_nobody_could_sign_in_to_is_refused(said: str) -> None:
    with pytest.raises(Invalid, match="neither a user with a password nor") as refused:
        credentials_check("openstack", {"clouds_yaml": AUTH % said})
    assert list(refused.value.fields) == ["credentials"]


def test_a_cloud_is_taken_and_nothing_beside_it() -> None:
    whole = AUTH % ", username: u, password: p"
    credentials_check("openstack", {"clouds_yaml": whole, "region_name": "one"})
    with pytest.raises(Invalid, match="kubeconfig"):
        credentials_check("openstack", {"clouds_yaml": whole, "kubeconfig": "x"})


@pytest.mark.parametrize("driver", driver_names())
def test_no_driver_takes_what_it_would_not_read(driver: str) -> None:
    for given in ({"hello": "world"}, {"kubeconfig": "hello: world"}):
        with pytest.raises(Invalid) as refused:
            credentials_check(driver, given)
        assert list(refused.value.fields) == ["credentials"]
