"""FOCUS by API: for members of the organization and for operators, sent as it is read."""

import asyncio
import csv
import io
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from django.core.handlers.asgi import ASGIRequest
from django.test import AsyncRequestFactory, RequestFactory

from gpuaas.core.streams import streamed
from tenants.models import Project, User
from tests.api.caller import V1, Caller


def body(caller: Caller, path: str, accept: str) -> tuple[int, bytes, str]:
    response = caller.client.get(V1 + path, headers={**caller.headers, "Accept": accept})
    return response.status_code, response.getvalue(), response.headers.get("Content-Disposition", "")


@pytest.mark.django_db
def test_both_formats_have_the_same_columns(alice: User, olga: User, project: Project) -> None:
    status, text, name = body(Caller(alice), "/organizations/climate/focus/2026-11.csv", "text/csv")
    assert (status, 'filename="focus-climate-2026-11.csv"' in name) == (200, True)
    header = next(csv.reader(io.StringIO(text.decode())))
    media = "application/vnd.apache.parquet"
    status, data, name = body(Caller(olga), "/platform/focus/2026-11.parquet", media)
    assert (status, 'filename="focus-all-2026-11.parquet"' in name) == (200, True)
    assert pq.read_table(io.BytesIO(data)).column_names == header


def test_under_asgi_parts_are_sent_one_by_one() -> None:
    """The second part is made when the first one was taken."""
    made = []

    def parts() -> Iterator[bytes]:
        for part in (b"one", b"two"):
            made.append(part)
            yield part

    async def read() -> list[bytes]:
        request = AsyncRequestFactory().get("/")
        assert isinstance(request, ASGIRequest)
        response = streamed(request, parts(), content_type="text/plain", name="x")
        stream = response.__aiter__()
        first = await stream.__anext__()
        assert made == [b"one"]
        return [first, await stream.__anext__()]

    assert asyncio.run(read()) == [b"one", b"two"]
    plain = streamed(RequestFactory().get("/"), iter([b"one"]), content_type="text/plain", name="x")
    assert plain.getvalue() == b"one"
