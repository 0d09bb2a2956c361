"""Every form of every page is sent with odd input, one field after the other: it is refused in words, or taken; never a crash."""

from collections import deque
from collections.abc import Iterator
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.crawling import ELSEWHERE, FILES
from tests.frontend.pages.test_shown import Shown

pytestmark = pytest.mark.django_db
ODD = [
    *("", "-1", "1e400", "\u0664\u0667", "9" * 400, "x" * 20_000, "a\x00b", "\U0001f680\u202e<b>&'"),
    *("0001-01-01T00:00", "9999-12-31T23:59", "2026-03-29T02:30"),
]
AT_A_SITE = ("/credential/",)  # no transaction may be open around it
ANSWERED = {200, 204, 302, 400, 404, 409, 412, 422}


class Forms(Shown):
    """With the texts that may have several lines."""

    def _fill(self, tag: str, at: dict[str, str]) -> None:
        super()._fill(tag, at)
        if tag == "textarea" and self._open:
            self._open[2].setdefault(at.get("name", ""), "")


def pages(client: Client, start: str, inside: tuple[str, ...]) -> Iterator[tuple[str, Forms]]:
    """Each kind of page once, with what is on it."""
    left, seen = deque([start, "/account/"]), set[str]()
    while left:
        path = left.popleft()
        name = name_of(path)
        if not path.startswith(inside) or path.startswith(ELSEWHERE) or FILES.search(path) or name in seen:
            continue
        seen.add(name)
        answer = client.get(path)
        if answer.status_code != 200 or "html" not in answer["Content-Type"]:
            continue
        found = Forms()
        found.feed(answer.content.decode())
        yield path, found
        left.extend(sorted(urldefrag(urljoin(path, link))[0] for link in found.links))


def name_of(path: str) -> str:
    try:
        return resolve(urlsplit(path).path).view_name
    except Resolver404:
        return path


def odd(client: Client, action: str, values: dict[str, str]) -> Iterator[str]:
    for field in set(values) - {"csrfmiddlewaretoken"}:
        for text in ODD:
            status: int | str
            with transaction.atomic():
                try:
                    status = client.post(action, {**values, field: text}).status_code
                except Exception as error:  # noqa: BLE001  whatever a page crashes by is told with what crashed it
                    status = repr(error)[:200]
                transaction.set_rollback(True)
            if status not in ANSWERED:
                yield f"{action} {field}={text[:30]!r}: {status}"


@pytest.mark.parametrize(
    ("reader", "start", "inside", "least"),
    [
        ("alice", "/p/weather-lm/", ("/p/", "/o/", "/account/"), 40),
        ("olga", "/operator/", ("/operator/", "/account/"), 60),
    ],
)
def test_no_form_crashes(
    reader: str,
    start: str,
    inside: tuple[str, ...],
    least: int,
    everything: Workspace,
    people: dict[str, User],
) -> None:
    del everything
    client = signed_in(people[reader])
    asked, found = set[tuple[str, str]](), list[str]()
    for path, page in pages(client, start, inside):
        for method, action, values in page.forms:
            at = urljoin(path, action)
            form = (name_of(at), " ".join(sorted(values)))
            if method != "post" or form in asked or at.startswith(ELSEWHERE) or at.endswith(AT_A_SITE):
                continue
            asked.add(form)
            found += odd(client, at, values)
    assert found == []
    assert len(asked) >= least, sorted(asked)
