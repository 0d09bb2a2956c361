"""The judgment alone: every rule of the two rounds, one broken at a time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gpuaas.providers.baremetal.approval import (
    CLIENT_SIGNER,
    CLIENT_USAGES,
    NODES,
    OPENSHIFT,
    SERVING_SIGNER,
    SERVING_USAGES,
    SKEW,
    Action,
    Bootstrapper,
    ExpectedHost,
    judge,
)
from gpuaas.providers.baremetal.requests import SigningRequest
from tests.providers.baremetal.kubelets import pem_of

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOST = ExpectedHost(
    name="dgx-1",
    dns=frozenset({"dgx-1"}),
    addresses=frozenset({ip_address("192.0.2.1"), ip_address("2001:db8::1")}),
    opens_at=NOON,
    closes_at=NOON + timedelta(hours=6),
)
JOINED = replace(HOST, client="uid-client")
CLIENT = SigningRequest(
    name="csr-1",
    uid="uid-1",
    signer=CLIENT_SIGNER,
    username=OPENSHIFT.username,
    groups=OPENSHIFT.groups,
    usages=CLIENT_USAGES,
    pem=pem_of("dgx-1"),
    created_at=NOON,
)
SERVING = replace(
    CLIENT,
    signer=SERVING_SIGNER,
    username="system:node:dgx-1",
    groups=frozenset({NODES, "system:authenticated"}),
    usages=SERVING_USAGES,
    pem=pem_of("dgx-1", sans=["dgx-1", "192.0.2.1", "2001:db8::1"]),
)


def verdict(request: SigningRequest, *hosts: ExpectedHost, now: datetime = NOON) -> tuple[str, str]:
    found = judge(request, {host.name: host for host in hosts}, now=now)
    return found.action, found.reason


def test_the_two_rounds() -> None:
    assert verdict(CLIENT, HOST) == (Action.APPROVE, "ExpectedHostClient")
    assert verdict(SERVING, JOINED) == (Action.APPROVE, "ExpectedHostServing")


@pytest.mark.parametrize(
    "key", [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)]
)
def test_keys_that_kubelets_make(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    with_rsa = CLIENT_USAGES | {"key encipherment"}
    request = replace(CLIENT, pem=pem_of("dgx-1", key=key), usages=with_rsa)
    assert verdict(request, HOST)[0] == Action.APPROVE


COUNTRY = x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "DE")
BROKEN_CLIENT = {
    "another account": ({"username": "system:serviceaccount:default:node-bootstrapper"}, "WrongRequester"),
    "another node": ({"username": "system:node:dgx-2"}, "WrongRequester"),
    "an administrator": ({"username": "system:admin"}, "WrongRequester"),
    "a group more": ({"groups": OPENSHIFT.groups | {"system:masters"}}, "WrongGroups"),
    "a group less": ({"groups": OPENSHIFT.groups - {"system:serviceaccounts"}}, "WrongGroups"),
    "a usage more": ({"usages": CLIENT_USAGES | {"server auth"}}, "WrongUsages"),
    "a usage less": ({"usages": frozenset({"client auth"})}, "WrongUsages"),
    "no usages": ({"usages": frozenset()}, "WrongUsages"),
    "a name": ({"pem": pem_of("dgx-1", sans=["dgx-1"])}, "WrongNames"),
    "an address": ({"pem": pem_of("dgx-1", sans=["192.0.2.1"])}, "WrongNames"),
    "nobody's host": ({"pem": pem_of("dgx-2")}, "UnexpectedHost"),
    "other case": ({"pem": pem_of("DGX-1")}, "UnexpectedHost"),
    "no host": ({"pem": pem_of("")}, "UnexpectedHost"),
    "no node": ({"pem": pem_of("", common_name="dgx-1")}, "WrongSubject"),
    "no organization": ({"pem": pem_of("dgx-1", organizations=())}, "WrongSubject"),
    "another organization": ({"pem": pem_of("dgx-1", organizations=("system:masters",))}, "WrongSubject"),
    "two organizations": (
        {"pem": pem_of("dgx-1", organizations=("system:nodes", "system:masters"))},
        "WrongSubject",
    ),
    "a country": ({"pem": pem_of("dgx-1", more=[COUNTRY])}, "Malformed"),
    "two names": (
        {"pem": pem_of("dgx-1", more=[x509.NameAttribute(x509.NameOID.COMMON_NAME, "system:node:dgx-2")])},
        "Malformed",
    ),
    "an authority": (
        {"pem": pem_of("dgx-1", extra=x509.BasicConstraints(ca=True, path_length=None))},
        "Malformed",
    ),
    "a weak key": ({"pem": pem_of("dgx-1", key=rsa.generate_private_key(65537, 1024))}, "Malformed"),
    "an odd curve": ({"pem": pem_of("dgx-1", key=ec.generate_private_key(ec.SECP256K1()))}, "Malformed"),
    "another kind of key": (
        {"pem": pem_of("dgx-1", key=ed25519.Ed25519PrivateKey.generate())},
        "Malformed",
    ),
    "no request": ({"pem": b"hello"}, "Malformed"),
    "nothing": ({"pem": b""}, "Malformed"),
    "two requests": ({"pem": pem_of("dgx-1") + pem_of("dgx-1")}, "Malformed"),
    "too early": ({"created_at": NOON - SKEW - timedelta(seconds=1)}, "TooEarly"),
    "too late": ({"created_at": NOON + timedelta(hours=6)}, "TooLate"),
}


@pytest.mark.parametrize("what", BROKEN_CLIENT)
def test_a_client_request_with_one_thing_wrong_is_denied(what: str) -> None:
    change, reason = BROKEN_CLIENT[what]
    assert verdict(replace(CLIENT, **change), HOST) == (Action.DENY, reason)  # type: ignore[arg-type]  # by its name


BROKEN_SERVING = {
    "the bootstrapper": ({"username": OPENSHIFT.username, "groups": OPENSHIFT.groups}, "WrongRequester"),
    "another node": ({"username": "system:node:dgx-2"}, "WrongRequester"),
    "a group more": ({"groups": frozenset({NODES, "system:authenticated", "admins"})}, "WrongGroups"),
    "no node's groups": ({"groups": frozenset({"system:authenticated"})}, "WrongGroups"),
    "a client's usages": ({"usages": CLIENT_USAGES}, "WrongUsages"),
    "no names": ({"pem": pem_of("dgx-1")}, "WrongNames"),
    "another's name": ({"pem": pem_of("dgx-1", sans=["dgx-1", "dgx-2"])}, "WrongNames"),
    "a wildcard": ({"pem": pem_of("dgx-1", sans=["*"])}, "WrongNames"),
    "a longer name": ({"pem": pem_of("dgx-1", sans=["dgx-1.example.org"])}, "WrongNames"),
    "another's address": ({"pem": pem_of("dgx-1", sans=["192.0.2.2"])}, "WrongNames"),
    "its address as a name": ({"pem": pem_of("dgx-1", sans=["uri:192.0.2.1"])}, "Malformed"),
}


@pytest.mark.parametrize("what", BROKEN_SERVING)
def test_a_serving_request_with_one_thing_wrong_is_denied(what: str) -> None:
    change, reason = BROKEN_SERVING[what]
    assert verdict(replace(SERVING, **change), JOINED) == (Action.DENY, reason)  # type: ignore[arg-type]  # by its name


def test_a_request_that_was_altered_after_it_was_signed_is_denied() -> None:
    text = bytearray(pem_of("dgx-1"))
    place = len(text) - len(b"-----END CERTIFICATE REQUEST-----\n") - 12
    text[place] = ord("A") if text[place] != ord("A") else ord("B")
    assert verdict(replace(CLIENT, pem=bytes(text)), HOST) == (Action.DENY, "Malformed")


def test_one_certificate_of_each_round() -> None:
    assert verdict(CLIENT, JOINED) == (Action.DENY, "Replay")
    assert verdict(replace(CLIENT, uid="uid-client"), JOINED)[0] == Action.APPROVE, (
        "its record was written first"
    )
    done = replace(JOINED, serving="uid-serving")
    assert verdict(SERVING, done) == (Action.DENY, "Replay")
    before = replace(HOST, earlier=frozenset({CLIENT.uid}))
    assert verdict(CLIENT, before) == (Action.DENY, "Replay")
    assert verdict(replace(CLIENT, decided=True, approved=True), before)[0] == Action.LEAVE
    assert verdict(SERVING, HOST) == (Action.DENY, "NoClientCertificate")


def test_renewals_are_the_clusters_own_affair() -> None:
    renewed = replace(CLIENT, username="system:node:dgx-1", groups=SERVING.groups)
    assert verdict(renewed, JOINED) == (Action.LEAVE, "Renewal")
    done = replace(JOINED, serving="uid-serving")
    month = timedelta(days=30)
    later = replace(SERVING, created_at=NOON + month)
    assert verdict(later, done, now=NOON + month) == (Action.LEAVE, "Renewal")
    assert verdict(later, JOINED, now=NOON + month) == (Action.DENY, "TooLate"), "it never joined"


def test_what_is_decided_stays_and_what_others_sign_is_theirs() -> None:
    assert verdict(replace(CLIENT, decided=True), HOST) == (Action.LEAVE, "Decided")
    assert verdict(replace(CLIENT, decided=True, approved=True), HOST)[0] == Action.NOTE
    wrong = replace(CLIENT, decided=True, approved=True, username="system:admin")
    assert verdict(wrong, HOST) == (Action.LEAVE, "Decided")
    assert verdict(replace(CLIENT, signer="example.org/mesh"), HOST) == (Action.LEAVE, "OtherSigner")
    assert verdict(replace(CLIENT, signer="kubernetes.io/kube-apiserver-client"), HOST)[1] == "WrongSigner"
    person = pem_of("", organizations=("developers",), common_name="carol")
    theirs = replace(CLIENT, signer="kubernetes.io/kube-apiserver-client", pem=person)
    assert verdict(theirs, HOST) == (Action.LEAVE, "OtherSigner")
    odd = replace(CLIENT, signer="kubernetes.io/legacy-unknown", pem=b"?")
    assert verdict(odd, HOST) == (Action.LEAVE, "OtherSigner")


def test_other_distributions_have_bootstrappers_of_their_own() -> None:
    kubeadm = Bootstrapper(
        "system:bootstrap:abcdef", frozenset({"system:bootstrappers", "system:authenticated"})
    )
    request = replace(CLIENT, username=kubeadm.username, groups=kubeadm.groups)
    assert judge(request, {"dgx-1": HOST}, now=NOON, bootstrapper=kubeadm).action is Action.APPROVE
    assert judge(CLIENT, {"dgx-1": HOST}, now=NOON, bootstrapper=kubeadm).reason == "WrongRequester"
