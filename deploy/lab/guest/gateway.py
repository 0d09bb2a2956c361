"""What machines reach: Nova's metadata service at its address, each machine its own; and below /api/ the portal."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from threading import Thread

from deploy.lab.guest.wishes import Wish, Wishes

SECONDS = 30  # for the portal to answer
PASSED_ON = ("Authorization", "Content-Type")
VERSIONS = b"2018-08-27\nlatest"


def serve(listening: socket, wishes: Wishes, network: str) -> Callable[[], None]:
    """Answers whoever comes in at the socket. Returns what ends it."""

    class Handler(_Handler):
        def wish(self) -> Wish | None:
            own = (self.client_address[0], network)
            return next((one for one in wishes.all().values() if (one.address, one.network) == own), None)

        def portal(self) -> str:
            return wishes.portal

        def date_time_string(self, timestamp: float | None = None) -> str:
            """The clock that machines compare theirs with."""
            return super().date_time_string((timestamp or time.time()) + wishes.flaws.ahead_s)

    server = ThreadingHTTPServer(listening.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end


def metadata(wish: Wish, name: str) -> bytes | None:
    """As cloud-init asks for it; the server's own metadata are of this moment."""
    match name:
        case "meta_data.json":
            document = {
                "uuid": wish.uuid,
                "name": wish.name,
                "hostname": wish.name,
                "availability_zone": "nova",
                "meta": dict(wish.meta),
            }
            return json.dumps(document).encode()
        case "user_data":
            return wish.config
        case "vendor_data.json" | "vendor_data2.json":
            return b"{}"
    return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def wish(self) -> Wish | None:
        raise NotImplementedError

    def portal(self) -> str:
        raise NotImplementedError

    def do_GET(self) -> None:
        path, wish = self.path.split("?")[0].strip("/"), self.wish()
        parts = path.split("/")
        if wish is None:
            self._answer(404, b"")
        elif path == "openstack":
            self._answer(200, VERSIONS)
        elif parts[0] == "openstack" and len(parts) == 3 and (body := metadata(wish, parts[2])) is not None:
            self._answer(200, body)
        elif path.endswith("meta-data/instance-id"):
            self._answer(200, wish.uuid.encode())
        elif path.endswith("latest/meta-data"):  # EC2's, without which cloud-init waits for a minute
            self._answer(200, b"instance-id")
        else:
            self._answer(404, b"")

    def do_POST(self) -> None:
        """What a machine tells the portal, and what that says."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.startswith("/api/") or not self.portal():
            self._answer(404, b"")
            return
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        asked = urllib.request.Request(self.portal() + self.path, body, headers, method="POST")
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                self._answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            self._answer(refused.code, refused.read())
        except OSError as error:
            self._answer(502, str(error).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
