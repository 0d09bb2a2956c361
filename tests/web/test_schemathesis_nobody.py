"""Requests made up from our own document by callers who are nobody, through the real server: always our error shape.

Nobody at all, a browser whose session is over, a program with a token that is none: 401 where the address is one of
ours, 404 where it is not, never HTML and never 5xx. Nothing of it may change anything.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from django.conf import settings
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tenants.models import AuditEntry, User
from tests.api.test_schemathesis import BOUNDED, ROOMS
from tests.web.process import Web, web_process
from tests.web.test_api_answers import error_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

REFUSED = {400, 401, 404, 405, 406, 413, 415}
# machines report with a token of their own, which the address itself judges
OWN_TOKEN = "/node-reports"


@pytest.fixture
def web() -> Iterator[Web]:
    with web_process() as found:
        yield found


def nobodies(alice: User) -> dict[str, dict[str, Any]]:
    client = Client()
    client.force_login(alice)
    dead = client.cookies[settings.SESSION_COOKIE_NAME].value
    client.logout()
    csrf = {settings.CSRF_COOKIE_NAME: "c" * 32}
    return {
        "anonymous": {},
        "dead cookie": {"cookies": {settings.SESSION_COOKIE_NAME: dead}},
        "dead cookie, live csrf": {
            "headers": {"X-CSRFToken": "c" * 32},
            "cookies": {settings.SESSION_COOKIE_NAME: dead, **csrf},
        },
        "wrong token": {"headers": {"Authorization": f"Bearer gpa_{'0' * 40}"}},
        "wrong scheme": {"headers": {"Authorization": "Basic YWxpY2U6ZGVtbw=="}},
    }


def play(
    operation: Any,
    mode: GenerationMode,
    web: Web,
    session: requests.Session,
    callers: dict[str, dict[str, Any]],
) -> set[tuple[str, int]]:
    """Each request that is made up is sent by all of them; who was answered what."""
    seen: set[tuple[str, int]] = set()

    @hypothesis_settings(BOUNDED, max_examples=2)
    @given(case=operation.as_strategy(mode))
    def one(case: Any) -> None:
        for name, caller in callers.items():
            answer = case.call(base_url=web.url, session=session, **caller)
            seen.add((name, answer.status_code))
            assert answer.status_code in REFUSED, (operation.label, name, answer.status_code)
            headers = {key: values[0] for key, values in answer.headers.items()}
            error_of(answer.status_code, headers, answer.content)

    run: Any = one
    with contextlib.suppress(Unsatisfiable):
        run()
    return seen


def test_whoever_is_nobody_is_told_so_in_our_shape(web: Web, alice: User) -> None:
    config = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
    document: Any = schemathesis.openapi.from_url(f"{web.url}/api/schema", config=config)
    operations = {found.ok().label: found.ok() for found in document.get_all_operations()}
    assert set(operations) == {label for labels in ROOMS.values() for label in labels}
    before = AuditEntry.objects.count()
    callers = nobodies(alice)
    with requests.Session() as session:
        for label, operation in operations.items():
            seen = play(operation, GenerationMode.POSITIVE, web, session, callers)
            assert OWN_TOKEN in label or {(name, 401) for name in callers} <= seen, (label, seen)
            play(operation, GenerationMode.NEGATIVE, web, session, callers)
    assert AuditEntry.objects.count() == before
