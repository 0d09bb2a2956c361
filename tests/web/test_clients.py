"""The web process itself, with an empty list and with its proxy in it: the server in front of Django believes nobody either."""

import urllib.request
from http.cookiejar import CookieJar

import pytest

from tenants.models import Tries, User
from tests.web.process import Web, web_process

pytestmark = pytest.mark.django_db(transaction=True)


def network_of_a_wrong_try(web: Web, name: str) -> set[str]:
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    door = f"{web.url}/accounts/login/"
    opener.open(door, timeout=60).read()
    token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
    sent = f"login={name}&password=wrong&csrfmiddlewaretoken={token}".encode()
    headers = {"X-Forwarded-For": "192.0.2.33", "X-Forwarded-Proto": "http"}
    assert opener.open(urllib.request.Request(door, sent, headers), timeout=60).status == 200
    return set(
        Tries.objects.filter(user__username=name).exclude(network="").values_list("network", flat=True)
    )


def test_loopback_is_believed_only_if_it_is_named() -> None:
    User.objects.create_user("alice", "alice@example.org", "correct horse battery")
    User.objects.create_user("bob", "bob@example.org", "correct horse battery")
    with web_process() as web:
        assert network_of_a_wrong_try(web, "alice") == {"127.0.0.1"}
    with web_process(GPUAAS_TRUSTED_PROXIES="127.0.0.1") as web:
        assert network_of_a_wrong_try(web, "bob") == {"192.0.2.33"}
        garbage = urllib.request.Request(
            f"{web.url}/accounts/login/",
            headers={"X-Forwarded-For": "\xff, 300.1.1.1", "X-Forwarded-Proto": ",,"},
        )
        assert urllib.request.urlopen(garbage, timeout=60).status == 200
