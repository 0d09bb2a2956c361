"""FOCUS by API: for members of the organization and for operators, sent as it is read."""

import asyncio
import csv
import gc
import io
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, AsyncRequestFactory, RequestFactory

from gpuaas.core.errors import TooManyDownloads
from gpuaas.core.streams import AT_ONCE, StreamMiddleware, attached, download_place, streamed
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


def asked(user: User, path: str) -> Any:
    """As the real server asks."""
    client = AsyncClient()
    client.force_login(user)
    return async_to_sync(client.get)(path)


async def read(answer: Any) -> bytes:
    return b"".join([part async for part in answer.streaming_content])


@pytest.mark.django_db(transaction=True)
def test_a_caller_has_few_downloads_at_once(alice: User, bob: User, project: Project) -> None:
    path, page = f"{V1}/projects/weather-lm/costs/intervals.csv", "/p/weather-lm/usage.csv"
    held = [asked(alice, path), asked(alice, page)]
    assert [each.status_code for each in held] == [200, 200]
    assert len(held) == AT_ONCE
    refused = asked(alice, path)
    assert (refused.status_code, refused["Retry-After"]) == (429, "30")
    assert refused.json()["error"]["code"] == "throttled"
    refused = asked(alice, page)
    assert (refused.status_code, refused["Retry-After"]) == (429, "30")
    assert "you have 2 downloads under way" in refused.content.decode().lower()
    assert async_to_sync(read)(asked(bob, path))
    assert all(async_to_sync(read)(each) for each in held)
    assert all(async_to_sync(read)(asked(alice, page)) for _ in range(3 * AT_ONCE))


def test_a_download_that_nobody_reads_leaves_its_place() -> None:
    for _ in range(3 * AT_ONCE):
        answer = streamed(AsyncRequestFactory().get("/"), iter([b""]), content_type="text/plain", name="x")
        assert answer.streaming
        del answer
        gc.collect()


@pytest.mark.django_db  # an answer that is closed looks at the connection, where the tests before have opened one
def test_a_file_that_is_sent_whole_holds_a_place_until_it_is_closed() -> None:
    """It is not read where there is none, and one that cannot be read holds none."""
    request = RequestFactory().get("/")

    def unread() -> bytes:
        raise NotADirectoryError

    for _ in range(2 * AT_ONCE):
        with pytest.raises(NotADirectoryError):
            attached(request, unread, name="x")
    held = [attached(request, lambda: b"one", name="x") for _ in range(AT_ONCE)]
    with pytest.raises(TooManyDownloads, match="you have 2 downloads"):
        attached(request, unread, name="x")
    held[0].close()
    assert attached(request, lambda: b"two", name="x").content == b"two"


def test_all_together_leave_half_of_the_connections() -> None:
    held = [download_place(f"caller-{number}") for number in range(settings.DATABASE_POOL["max_size"] // 2)]
    with pytest.raises(TooManyDownloads, match="too many"):
        download_place("one more")
    held.pop().leave()
    download_place("one more")


@pytest.mark.django_db(transaction=True)
def test_what_is_sent_to_a_slow_client_holds_no_connection() -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(User.objects.count()))

    request = AsyncRequestFactory().get("/")
    assert StreamMiddleware(answer)(request).status_code == 200
    assert connection.connection is None
