"""A collector of OpenTelemetry's traces in the process of the test: OTLP over HTTP, as the real ones take it."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.served import served


@dataclass
class Collector:
    """services: of the processes that sent something; raw: every byte that came."""

    url: str = ""
    services: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)
    raw: bytes = b""

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        self.raw += body
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                one.value.string_value for one in part.resource.attributes if one.key == "service.name"
            }
            self.spans += [span for scope in part.scope_spans for span in scope.spans]

    def one(self, name: str) -> Span:
        """The first of this name; whoever ended has sent it."""
        assert name in self.names(), self.names()
        return next(span for span in self.spans if span.name == name)

    def names(self) -> list[str]:
        return [span.name for span in self.spans]


def said(span: Span) -> dict[str, str | int]:
    return {
        one.key: one.value.int_value if one.value.HasField("int_value") else one.value.string_value
        for one in span.attributes
    }


@contextmanager
def collector() -> Iterator[Collector]:
    found = Collector()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.take(self.path, gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with served(Door) as found.url:
        yield found
