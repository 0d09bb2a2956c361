"""Streamed answers that work alike under WSGI and ASGI.

Under ASGI Django collects a plain iterator completely before it sends the first byte. Here it is read in the
request's own thread, one part whenever the client has taken the last one: as slowly as the client reads, with one
part in memory. When the client leaves, the iterator is closed in that same thread, with its database cursor and
connection.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

ROWS = 2000


class StreamMiddleware:
    """Around all that answer: what others below stream (files by whitenoise) is sent in parts, too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if (
            isinstance(request, ASGIRequest)
            and isinstance(response, StreamingHttpResponse)
            and not response.is_async
        ):
            response.streaming_content = in_parts(iter(response))
        return response


def streamed(
    request: HttpRequest, parts: Iterator[bytes], *, content_type: str, name: str
) -> StreamingHttpResponse:
    """A streamed download."""
    content = in_parts(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
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
