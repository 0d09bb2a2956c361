"""FOCUS by API: for members of the organization and for operators, sent as it is read."""

import asyncio
import csv
import gc
import io
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from gpuaas.core.errors import TooManyDownloads
from gpuaas.core.streams import AT_ONCE, Places, StreamMiddleware, streamed
from tenants.models import Project, User
from tests.api.caller import V1, Caller
from tests.frontend.pages.conftest import signed_in


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


@pytest.mark.django_db
def test_a_caller_has_few_downloads_at_once(alice: User, bob: User, project: Project) -> None:
    path, page = f"{V1}/projects/weather-lm/costs/intervals.csv", "/p/weather-lm/usage.csv"
    caller, browser = Caller(alice), signed_in(alice)
    held = [caller.client.get(path, headers=caller.headers), browser.get(page)]
    assert [each.status_code for each in held] == [200, 200]
    assert len(held) == AT_ONCE
    refused = caller.client.get(path, headers=caller.headers)
    assert (refused.status_code, refused["Retry-After"], refused.json()["error"]["code"]) == (
        429,
        "30",
        "throttled",
    )
    refused = browser.get(page)
    assert (refused.status_code, refused["Retry-After"]) == (429, "30")
    assert "you have 2 downloads under way" in refused.content.decode().lower()
    other = Caller(bob)
    assert other.client.get(path, headers=other.headers).getvalue()
    assert held.pop().getvalue()  # read to its end
    assert browser.get(page).getvalue()
    held.clear()  # nobody reads it
    gc.collect()
    assert [browser.get(page).getvalue() != b"" for _ in range(3 * AT_ONCE)]


def test_all_together_leave_half_of_the_connections() -> None:
    places, most = Places(), settings.DATABASE_POOL["max_size"] // 2
    for number in range(most):
        places.take(f"caller-{number}")
    with pytest.raises(TooManyDownloads, match="too many"):
        places.take("one more")
    places.leave("caller-0")
    places.take("one more")


@pytest.mark.django_db(transaction=True)
def test_what_is_sent_to_a_slow_client_holds_no_connection() -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(User.objects.count()))

    request = AsyncRequestFactory().get("/")
    assert StreamMiddleware(answer)(request).status_code == 200
    assert connection.connection is None
