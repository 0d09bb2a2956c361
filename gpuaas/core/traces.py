"""OpenTelemetry traces of requests, the tasks that they lead to, visits and calls to sites, for whoever runs a collector.

Off unless OTEL_EXPORTER_OTLP_ENDPOINT is set: the libraries are not even imported then. A span says only what is written
here and by its callers: names of routes, tasks, rows, sites and codes; no address, argument, statement or words of an
error, so that no secret leaves by it. The collector is the only one that is told of a trace: neither sites nor tenants
are, and what a client says of one is not believed (decision 0078).
"""

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

from gpuaas import __version__

if TYPE_CHECKING:  # the libraries are an extra
    from opentelemetry.sdk.trace import TracerProvider

PARENT = "traceparent"  # W3C's header, of tasks
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
END_SECONDS = 1  # a collector that is away does not keep a process from its end


@dataclass
class SpanData:
    """What a span says at its end. error: a code; "" where all went well."""

    name: str
    about: dict[str, str | int] = field(default_factory=dict)
    error: str = ""


_own: list["TracerProvider"] = []


def begin(kind: str) -> None:
    """From now on the spans of this process go to the collector, if there is one, in batches and by a thread. What does not
    arrive is dropped, and logged."""
    if not settings.TRACES_ENDPOINT:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    own = {
        "service.name": f"gpuaas-{kind}",
        "service.version": __version__,
        "service.instance.id": f"{platform.node()}:{os.getpid()}",
    }
    chosen = Resource(own).merge(OTELResourceDetector().detect())  # the environment's words win
    provider = TracerProvider(resource=chosen, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{settings.TRACES_ENDPOINT}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _own[:] = [provider]


def end() -> None:
    """What is left is sent, for so long as END_SECONDS."""
    while _own:
        last = threading.Thread(target=_own.pop().shutdown, name="traces", daemon=True)
        last.start()
        last.join(END_SECONDS)


@contextmanager
def span(
    name: str, kind: str = "INTERNAL", *, came_with: Mapping[str, str] | None = None
) -> Iterator[SpanData]:
    """One span around the block, below the span in which it is. kind: OpenTelemetry's.

    came_with: what `carried` gave to whoever sent the work; it decides alone what the span is below. An error that
    leaves the block is named by its class.
    """
    data = SpanData(name)
    if not _own:
        yield data
        return
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    above = None if came_with is None else TraceContextTextMapPropagator().extract(came_with)
    tracer = _own[0].get_tracer("gpuaas", __version__)
    with tracer.start_as_current_span(
        name,
        context=above,
        kind=SpanKind[kind],
        record_exception=False,  # its words and its stack
        set_status_on_exception=False,
    ) as current:
        try:
            yield data
        except BaseException as error:
            data.error = data.error or type(error).__name__
            raise
        finally:
            current.update_name(data.name)
            current.set_attributes(data.about)
            if data.error:
                current.set_attribute("error.type", data.error)
                current.set_status(StatusCode.ERROR)


def carried() -> dict[str, str]:
    """For the headers of work that is sent from here; empty where nothing is traced."""
    found: dict[str, str] = {}
    if _own:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return found


class TraceMiddleware:
    """Every request is the root of a trace, named by its method and by the name of its route in the code."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.TRACES_ENDPOINT:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        method = str(request.method) if request.method in METHODS else "_OTHER"
        with span(method, "SERVER", came_with={}) as data:
            response = self.get_response(request)
            match = request.resolver_match
            data.name = f"{method} {match.view_name if match else 'unknown'}"
            data.about = {
                "http.request.method": method,
                "http.route": match.route
                if match
                else "",  # the pattern: addresses themselves may be secrets
                "http.response.status_code": response.status_code,
                "gpuaas.request_id": vars(request)["request_id"],
            }
            data.error = str(response.status_code) if response.status_code >= 500 else ""
        return response
