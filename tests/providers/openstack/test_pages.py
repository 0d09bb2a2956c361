"""Lists in pages, as Keystone gives them where its operator has set list_limit."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.openstack.client import Cloud

IDS = [f"{number:03}" for number in range(7)]
LIMIT = 3


class Keystone(BaseHTTPRequestHandler):
    """Projects come in pages, as of 2025.1; users are cut off, as all lists were before."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        key = asked.path.removeprefix("/v3/")
        if key not in {"projects", "users"}:
            self._answer({"version": {"id": "v3.14", "status": "stable", "links": [_link(self, "/v3")]}})
            return
        marker = parse_qs(asked.query).get("marker", [""])[0]
        rows = [each for each in IDS if each > marker][:LIMIT]
        is_cut = len(rows) == LIMIT
        following = f"{_base(self)}/v3/projects?marker={rows[-1]}&limit={LIMIT}" if is_cut else None
        links = {"next": following if key == "projects" else None, "self": "", "previous": None}
        cut = {"truncated": True} if is_cut else {}
        self._answer({key: [{"id": each} for each in rows], "links": links, **cut})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        where = {"interface": "public", "region": "one", "region_id": "one", "url": f"{_base(self)}/v3"}
        catalog = [{"type": "identity", "name": "keystone", "endpoints": [{"id": "1", **where}]}]
        user = {"id": "1", "name": "a", "domain": {"id": "default", "name": "Default"}}
        times = {"issued_at": "2020-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z"}
        self._answer({"token": {"user": user, "catalog": catalog, "methods": ["password"], **times}}, 201)

    def _answer(self, body: Any, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Subject-Token", "token")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_about: Any) -> None:
        pass


def _base(handler: BaseHTTPRequestHandler) -> str:
    return f"http://{handler.headers['Host']}"


def _link(handler: BaseHTTPRequestHandler, path: str) -> dict[str, str]:
    return {"rel": "self", "href": f"{_base(handler)}{path}"}


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keystone)
    Thread(target=server.serve_forever, daemon=True).start()
    auth = f"{{auth_url: 'http://127.0.0.1:{server.server_port}/v3', username: a, password: b, user_domain_id: default}}"
    made = Cloud({"clouds_yaml": f"clouds:\n  one:\n    region_name: one\n    auth: {auth}\n"})
    try:
        yield made
    finally:
        made.close()
        server.shutdown()
        server.server_close()


def test_keystone_is_asked_for_every_page(cloud: Cloud) -> None:
    """Flavors of projects beyond the first page would be taken from them, as from strangers'."""
    assert [row["id"] for row in cloud.items("identity", "/projects", "projects", tags="gpuaas")] == IDS


def test_a_list_that_is_cut_off_is_not_taken_for_a_whole_one(cloud: Cloud) -> None:
    with pytest.raises(Permanent, match="list_limit"):
        cloud.items("identity", "/users", "users")
