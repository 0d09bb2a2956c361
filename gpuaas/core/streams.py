"""Answers that are sent as they are made, whichever way the server runs."""

from collections.abc import AsyncIterator, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

ROWS = 2000


def streamed(
    request: HttpRequest, parts: Iterator[bytes], *, content_type: str, name: str
) -> StreamingHttpResponse:
    """A download. Under ASGI Django would gather a plain iterator in memory before it sends the first part."""
    content: Iterator[bytes] | AsyncIterator[bytes] = parts
    if isinstance(request, ASGIRequest):
        content = _parts(parts)
    response = StreamingHttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def csv_streamed(request: HttpRequest, rows: Iterator[str], *, name: str) -> StreamingHttpResponse:
    """A table as `name`.csv; as many rows together as are worth a step of the server."""
    parts = iter(lambda: "".join(islice(rows, ROWS)).encode(), b"")
    return streamed(request, parts, content_type="text/csv; charset=utf-8", name=f"{name}.csv")


async def _parts(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(parts, None))
    while (part := await following()) is not None:
        yield part
