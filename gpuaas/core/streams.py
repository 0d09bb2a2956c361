"""Streamed answers that work alike under WSGI and ASGI.

Under ASGI Django collects a plain iterator completely before it sends the first byte. Here it is read in the
request's own thread, one part whenever the client has taken the last one: as slowly as the client reads, with one
part in memory. When the client leaves, the iterator is closed in that same thread, with its database cursor and
connection.

A download holds its connection for as long as its client reads, so there are never more than half as many as the
process has connections, and few of one caller. Whatever else is sent to a slow client holds none.
"""

import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from gpuaas.core.errors import TooManyDownloads

ROWS = 2000
AT_ONCE = 2  # of one caller


class StreamMiddleware:
    """Around all that answer: what others below stream (files by whitenoise) is sent in parts, too. The connection to
    the database goes back to the pool before the answer is sent; what a download still reads takes one again."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not isinstance(request, ASGIRequest):
            return response
        close_old_connections()
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            response.streaming_content = in_parts(iter(response))
        return response


class Places:
    """Of downloads that are under way, each with the caller whose it is."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        # a forgotten answer leaves whenever Python finds it, also while another is taken
        self._lock = threading.RLock()

    def take(self, caller: str) -> None:
        """Raises TooManyDownloads where the caller or the process has as many as it may."""
        with self._lock:
            if self._taken[caller] >= AT_ONCE:
                raise TooManyDownloads(
                    f"you have {AT_ONCE} downloads under way; start this one when one has ended"
                )
            if self._taken.total() >= max(1, settings.DATABASE_POOL["max_size"] // 2):
                raise TooManyDownloads("too many downloads are under way; start this one again in a moment")
            self._taken[caller] += 1

    def leave(self, caller: str) -> None:
        with self._lock:
            self._taken[caller] -= 1
            self._taken += Counter()  # forgets who has none


_places = Places()


class Download(StreamingHttpResponse):
    """Holds a place until it is closed, or forgotten by a server whose client left before the first byte."""

    def __init__(self, content: Any, *, caller: str, **given: Any) -> None:
        _places.take(caller)
        self._leave = weakref.finalize(self, _places.leave, caller)
        super().__init__(content, **given)

    def close(self) -> None:
        super().close()
        self._leave()


def streamed(
    request: HttpRequest, parts: Iterator[bytes], *, content_type: str, name: str
) -> StreamingHttpResponse:
    """A streamed download. Raises TooManyDownloads, under ASGI."""
    if isinstance(request, ASGIRequest):
        caller = str(getattr(getattr(request, "user", None), "pk", ""))
        response: StreamingHttpResponse = Download(in_parts(parts), caller=caller, content_type=content_type)
    else:
        response = StreamingHttpResponse(parts, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def attached(content: bytes, *, name: str) -> HttpResponse:
    """A file that somebody else made: saved, and never shown, so that nothing in it runs as a page of the portal."""
    plain = "".join(each if each.isprintable() else "_" for each in name)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'"}
    if disposition := content_disposition_header(as_attachment=True, filename=plain):
        headers["Content-Disposition"] = disposition
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)


def csv_streamed(request: HttpRequest, rows: Iterator[str], *, name: str) -> StreamingHttpResponse:
    """A table as `name`.csv; rows are sent in batches."""
    return streamed(request, _texts(rows), content_type="text/csv; charset=utf-8", name=f"{name}.csv")


def _texts(rows: Iterator[str]) -> Iterator[bytes]:
    """The header is sent by itself and at once, so that a proxy that waits for the first byte need not wait for the
    query."""
    yield next(rows, "").encode()
    while text := "".join(islice(rows, ROWS)):
        yield text.encode()


async def in_parts(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(parts, None))
    try:
        while (part := await following()) is not None:
            yield part
    finally:
        await sync_to_async(getattr(parts, "close", lambda: None))()
