"""Who asked: the peer, or what a trusted proxy says of it. What anybody else says changes nothing."""

from ipaddress import ip_network

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import Settings

from gpuaas.core import env
from gpuaas.core.clients import ClientMiddleware, address_of
from tenants.models import AuditEntry, Tries, User

PROXY, CDN, PERSON, LIAR = "10.0.0.7", "203.0.113.9", "192.0.2.33", "6.6.6.6"


@pytest.fixture(autouse=True)
def _trusted(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = [ip_network("10.0.0.0/24"), ip_network(f"{CDN}/32"), ip_network("fd00::/8")]


def passed(peer: str, **headers: str) -> HttpRequest:
    """What everything behind the middleware gets. headers: as `x_forwarded_for`."""
    found: list[HttpRequest] = []

    def keep(request: HttpRequest) -> HttpResponse:
        found.append(request)
        return HttpResponse()

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    ClientMiddleware(keep)(RequestFactory().get("/", REMOTE_ADDR=peer, headers=named))
    return found[0]


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        (PERSON, "", PERSON),
        (PERSON, LIAR, PERSON),
        (PERSON, f"{LIAR}, {PROXY}", PERSON),
        ("127.0.0.1", LIAR, "127.0.0.1"),
        (PROXY, "", PROXY),
        (PROXY, PERSON, PERSON),
        (PROXY, f"{LIAR}, {PERSON}", PERSON),
        (PROXY, f"{LIAR}, {PERSON}, {CDN}", PERSON),
        (PROXY, f"{LIAR},{PERSON},{CDN},10.0.0.8", PERSON),
        (PROXY, f"{PERSON}, unknown", PROXY),
        (PROXY, f"{LIAR}, garbage, {CDN}", CDN),
        (PROXY, f"{PERSON}:50123", PERSON),
        (PROXY, f"::ffff:{PERSON}", PERSON),
        (f"::ffff:{PROXY}", PERSON, PERSON),
        (PROXY, "2001:db8::7", "2001:db8::7"),
        (PROXY, "[2001:db8::7]:443", "2001:db8::7"),
        ("fd00::1", PERSON, PERSON),
        (PROXY, "fe80::1%eth0", "fe80::1"),
        (PROXY, ", ,", PROXY),
        (PROXY, "10.0.0.8, 10.0.0.9", "10.0.0.8"),
        (PROXY, "1.2.3.4.5", PROXY),
        (PROXY, "010.1.2.3", PROXY),
        (PROXY, "'; DROP TABLE x; --", PROXY),
        (PROXY, ",".join([LIAR] * 5000 + [PERSON]), PERSON),
        ("", PERSON, ""),
        ("unix:/run/web.sock", PERSON, ""),
        ("testclient", PERSON, ""),
    ],
)
def test_the_client(peer: str, said: str, client: str) -> None:
    assert passed(peer, x_forwarded_for=said).META["REMOTE_ADDR"] == client


@pytest.mark.parametrize(
    ("peer", "said", "secure"),
    [
        (PERSON, "https", False),
        ("", "https", False),
        (PROXY, "https", True),
        (PROXY, "HTTPS", True),
        (PROXY, "http", False),
        (PROXY, "https, http", False),
        (PROXY, "http, https", True),
        (PROXY, "wss", False),
        (PROXY, "", False),
    ],
)
def test_the_scheme(peer: str, said: str, secure: bool) -> None:
    assert passed(peer, x_forwarded_proto=said).is_secure() is secure


def test_nothing_that_a_stranger_forwards_is_left() -> None:
    request = passed(PERSON, x_forwarded_host="evil.example.org", x_forwarded_port="1", x_forwarded_for=LIAR)
    assert not [name for name in request.META if "FORWARDED" in name]


def test_addresses_as_they_are_written() -> None:
    assert str(address_of(" [::1]:80 ")) == "::1"
    assert str(address_of("::ffff:192.0.2.1")) == "192.0.2.1"
    assert address_of("") is address_of("host.example.org") is address_of("1:2:3") is None


@pytest.mark.parametrize(
    "said", ["*", "0.0.0.0/0", "::/0", "0.0.0.0/1", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "unix:"]
)
def test_a_list_that_is_none_stops_the_start(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("GPUAAS_TRUSTED_PROXIES", f"10.0.0.1, {said}")
    with pytest.raises(ImproperlyConfigured, match="GPUAAS_TRUSTED_PROXIES"):
        env.networks("GPUAAS_TRUSTED_PROXIES")


def test_a_list_that_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUAAS_TRUSTED_PROXIES", "10.0.0.1, 10.1.0.0/16,fd00::/8,::1")
    assert [str(one) for one in env.networks("GPUAAS_TRUSTED_PROXIES")] == [
        "10.0.0.1/32",
        "10.1.0.0/16",
        "fd00::/8",
        "::1/128",
    ]
    monkeypatch.delenv("GPUAAS_TRUSTED_PROXIES")
    assert env.networks("GPUAAS_TRUSTED_PROXIES") == []


def test_limits_and_audit_follow_the_proxy(alice: User, olga: User) -> None:
    person = Client(REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR=f"{LIAR}, {PERSON}")
    other = Client(REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR="192.0.2.44")
    liar = Client(REMOTE_ADDR=LIAR)
    sent = {"login": "alice", "password": "wrong"}
    assert [person.post(reverse("account_login"), sent).status_code for _ in range(6)] == [200] * 5 + [429]
    assert other.post(reverse("account_login"), sent).status_code == 200
    claims = [{"x-forwarded-for": f"192.0.2.{number}"} for number in range(6)]  # which make no other client
    codes = [liar.post(reverse("account_login"), sent, headers=claim).status_code for claim in claims]
    assert codes == [200] * 5 + [429]
    assert set(Tries.objects.exclude(account="").exclude(network="").values_list("network", flat=True)) == {
        PERSON,
        "192.0.2.44",
        LIAR,
    }
    operator = Client(REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR=PERSON)
    operator.force_login(olga)
    operator.post(reverse("frontend:operator_person_role", args=[alice.pk]), {"platform_role": "auditor"})
    assert AuditEntry.objects.get(action="user.role").ip == PERSON


@pytest.mark.parametrize("peer", ["", "garbage", "fe80::1%eth0"])
def test_whatever_the_peer_is_the_audit_log_takes_it(alice: User, olga: User, peer: str) -> None:
    operator = Client(REMOTE_ADDR=peer)
    operator.force_login(olga)
    door = reverse("frontend:operator_person_role", args=[alice.pk])
    assert operator.post(door, {"platform_role": "auditor"}).status_code == 302
    assert AuditEntry.objects.get(action="user.role").ip == ("fe80::1" if peer.startswith("fe80") else None)


def test_reports_of_nodes_are_counted_by_client(db: None) -> None:
    from django.core.cache import cache

    cache.clear()

    def refused(**peer: str) -> list[int]:
        client = Client(**peer)  # type: ignore[arg-type]
        return [
            client.post(
                "/api/v1/node-reports",
                {"stage": "booted"},
                "application/json",
                headers={"authorization": "Bearer x"},
            ).status_code
            for _ in range(31)
        ]

    assert refused(REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR=PERSON)[-1] == 429
    assert refused(REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_FOR="192.0.2.44")[0] == 401
    cache.clear()
