"""Failures in our words, from the real server and from kubeconfigs that must not be followed."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
import yaml

from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import Connection
from gpuaas.providers.kubeapi.client import Api, Expired, Outdated, refusal
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.lab.fixtures import LabSite

STATUSES: dict[str, tuple[int, dict[str, Any], type[GpuaasError]]] = {
    "our token is no good": (401, {}, Unauthorized),
    "a right is missing": (403, {"message": 'User "portal" cannot list resource "nodes"'}, Unauthorized),
    "a policy refuses": (403, {"message": "exceeded quota"}, Permanent),
    "the namespace goes": (403, {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}, Unavailable),
    "not there": (404, {}, NotFound),
    "changed meanwhile": (409, {}, Outdated),
    "too old": (410, {}, Expired),
    "not valid": (422, {}, Permanent),
    "too many": (429, {}, Unavailable),
    "broken": (500, {}, Unavailable),
    "no etcd": (503, {}, Unavailable),
}


@pytest.mark.parametrize("what", STATUSES)
def test_answers_become_our_errors(what: str) -> None:
    status, answer, wanted = STATUSES[what]
    assert type(refusal(status, answer)) is wanted


def test_the_server_says_how_long_to_wait() -> None:
    error = refusal(429, {}, "17")
    assert isinstance(error, Unavailable)
    assert error.retry_after == 17


def config(**user: Any) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


UNUSABLE = {
    "empty": "",
    "not yaml": "{{",
    "a word": "hello",
    "runs a program": config(exec={"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}),
    "reads a file of ours": config(**{"client-key": "/etc/ssl/private/key.pem"}),
    "no such context": config(token="t").replace("current-context: x", "current-context: y"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_kubeconfig_that_cannot_or_must_not_be_used(what: str) -> None:
    connection = Connection(uuid4(), "site", "", credentials={"kubeconfig": UNUSABLE[what]})
    with pytest.raises(Unauthorized):
        KubernetesDriver(connection).probe()


def test_nobody_at_the_door_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        Api(config(token="t")).get("/version")


class _Page(BaseHTTPRequestHandler):
    """A portal of the network before the API server: it greets every call."""

    def do_GET(self) -> None:
        body = b"<html><body>Please sign in</body></html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def greeted() -> Iterator[Api]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Api(config(token="t").replace("https://127.0.0.1:9", f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()


def test_a_page_in_place_of_an_object_is_unavailable(greeted: Api) -> None:
    """Neither is a deletion that was answered so one that happened."""
    for ask in (
        lambda: greeted.find("/api/v1/namespaces/a"),
        lambda: greeted.items("/api/v1/pods"),
        lambda: greeted.delete("/api/v1/namespaces/a"),
        lambda: greeted.apply("/api/v1/namespaces", {"metadata": {"name": "a"}}),
    ):
        with pytest.raises(Unavailable, match="is not JSON"):
            ask()


@pytest.mark.lab
def test_a_wrong_token_is_unauthorized(lab: LabSite) -> None:
    given = yaml.safe_load(lab.kubeconfig)
    given["users"][0]["user"] = {"token": "nonsense"}
    driver = KubernetesDriver(replace(lab.connection(), credentials={"kubeconfig": yaml.safe_dump(given)}))
    with pytest.raises(Unauthorized):
        driver.probe()


@pytest.mark.lab
def test_another_authority_is_unauthorized(lab: LabSite) -> None:
    given = yaml.safe_load(lab.kubeconfig)
    del given["clusters"][0]["cluster"]["certificate-authority-data"]
    driver = KubernetesDriver(replace(lab.connection(), credentials={"kubeconfig": yaml.safe_dump(given)}))
    with pytest.raises(Unauthorized, match=re.escape("certificate")):
        driver.probe()
