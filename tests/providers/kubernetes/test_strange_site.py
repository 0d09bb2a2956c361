"""A site whose watches end as soon as they begin is asked again, and not as fast as it answers."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.changes import KINDS, Memory, watch_changes

LIST = {"metadata": {"resourceVersion": "7"}, "items": []}
GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}


class _Hasty(BaseHTTPRequestHandler):
    """Lists are empty, and watches over at once; `watched` says by what last word."""

    watched = b""
    asked: Counter[str] = Counter()

    def do_GET(self) -> None:
        watches = "watch=1" in self.path
        self.asked["watch" if watches else "list"] += 1
        body = self.watched if watches else json.dumps(LIST).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hasty() -> Iterator[Api]:
    _Hasty.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hasty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        document = {
            "clusters": [cluster],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        yield Api(yaml.safe_dump(document))
        server.shutdown()


@pytest.mark.parametrize("last", [b"", json.dumps(GONE).encode() + b"\n"], ids=["it ends", "too old"])
def test_a_watch_that_ends_at_once_begins_again_after_a_pause(
    hasty: Api, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    monkeypatch.setattr(_Hasty, "watched", last)
    changes = list(watch_changes(hasty, Memory(), "", seconds=3))
    assert changes[-1].proof
    assert 0 < _Hasty.asked["watch"] <= 4 * len(KINDS)
