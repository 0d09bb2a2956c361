"""Streamed answers that work alike under WSGI and ASGI.

Under ASGI Django collects a plain iterator completely before it sends the first byte. Here it is read in the
request's own thread, one part whenever the client has taken the last one: as slowly as the client reads, with one
part in memory. When the client leaves, the iterator is closed in that same thread, with its database cursor and
connection.

A download holds its connection for as long as its client reads, so there are never more than half as many as the
process has connections, and few of one caller. Whatever else is sent to a slow client holds none; a file that is sent
whole stays in memory meanwhile, so there are few of those, too.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from gpuaas.core.errors import TooManyDownloads
from gpuaas.core.places import Limit, Place, Places

ROWS = 2000
AT_ONCE = 2  # of one caller
WHOLE = 8  # files that are in memory until their clients have read them
MANY = "too many downloads are under way; start this one again in a moment"


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


_streamed, _attached = Places(TooManyDownloads), Places(TooManyDownloads)


def download_place(caller: str) -> Place:
    """Raises TooManyDownloads where the caller or the process has as many as it may."""
    most = max(1, settings.DATABASE_POOL["max_size"] // 2)
    return _streamed.take(_of_one(caller), Limit("all", most, MANY))


def _of_one(caller: str) -> Limit:
    words = f"you have {AT_ONCE} downloads under way; start this one when one has ended"
    return Limit(("caller", caller), AT_ONCE, words)


class _Placed(HttpResponseBase):
    """Holds a place until it is closed."""

    place: Place

    def close(self) -> None:
        super().close()
        self.place.leave()


class Download(_Placed, StreamingHttpResponse):
    pass


class Attached(_Placed, HttpResponse):
    pass


def streamed(
    request: HttpRequest, parts: Iterator[bytes], *, content_type: str, name: str
) -> StreamingHttpResponse:
    """A streamed download. Raises TooManyDownloads, under ASGI."""
    response: StreamingHttpResponse
    if isinstance(request, ASGIRequest):
        place = download_place(_caller(request))
        response = download = Download(in_parts(parts), content_type=content_type)
        download.place = place
    else:
        response = StreamingHttpResponse(parts, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _caller(request: HttpRequest) -> str:
    return str(getattr(getattr(request, "user", None), "pk", ""))


def attached(request: HttpRequest, read: Callable[[], bytes], *, name: str) -> HttpResponse:
    """A file that somebody else made: saved, and never shown, so that nothing in it runs as a page of the portal. It is read
    once there is a place for it in memory. Raises TooManyDownloads."""
    plain = "".join(each if each.isprintable() else "_" for each in name)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'"}
    if disposition := content_disposition_header(as_attachment=True, filename=plain):
        headers["Content-Disposition"] = disposition
    place = _attached.take(_of_one(_caller(request)), Limit("all", WHOLE, MANY))
    try:
        response = Attached(read(), content_type="application/octet-stream", headers=headers)
    except BaseException:
        place.leave()
        raise
    response.place = place
    return response


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
