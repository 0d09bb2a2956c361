"""Requests made up from our own document, the odd ones included: never a 5xx, and every answer as documented."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_django
import schemathesis
import yaml
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.spec import spec_of
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import boot_token, queue_token
from tests.apart import each_apart
from tests.api.caller import token_for
from tests.api.furnished import World, furnished
from tests.factories.quotas import counters_must_match

SNAPSHOT = Path(settings.BASE_DIR) / "docs" / "openapi.v1.yaml"
ROOMS: dict[str, list[str]] = defaultdict(list)
for _path, _operations in yaml.load(SNAPSHOT.read_text("utf-8"), yaml.CSafeLoader)["paths"].items():
    for _method, _operation in _operations.items():
        _tag = _operation["tags"][0]
        _room = f"platform {_path.split('/')[4]}" if _tag == "platform" else _tag
        ROOMS[_room].append(f"{_method.upper()} {_path}")
CHECKS: list[Any] = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CSRF = "c" * 32


@dataclass(frozen=True)
class Size:
    """How many requests of each kind one operation gets: valid ones about what is there, valid ones about what may not be,
    and ones with something wrong in them."""

    in_place: int
    made_up: int
    odd: int


# by the sum that the deep one is named after, and by the one of each kind that the fast tier has
SIZES = {1: Size(in_place=1, made_up=1, odd=1), 20: Size(in_place=8, made_up=4, odd=8)}


@cache
def operations() -> dict[str, Any]:
    """Of the document, which tests/api/test_document.py finds to be that of the running application; the calls go to the
    application in this process."""
    config = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
    document: Any = schemathesis.openapi.from_path(SNAPSHOT, config=config)
    document.app, document.location = get_wsgi_application(), "/api/schema"
    return {found.ok().label: found.ok() for found in document.get_all_operations()}


BOUNDED = hypothesis_settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def _one_connection() -> Iterator[None]:
    """The test's transaction survives the end of a request, as with Django's own test client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[World]:
    with furnished(django_db_blocker) as made:
        yield made


def credentials(label: str, world: World) -> dict[str, dict[str, str]]:
    """Programs where a token does, operators' and makers' browsers where only those may; a machine's own for its reports."""
    path = label.split()[1]
    if path.endswith("/node-reports"):
        cluster = Cluster.objects.get(pk=world.stage["cluster"])
        token = boot_token(spec_of(cluster).boots.seed, cluster=cluster.pk, node="gpu-1", boot=uuid7())
        return {"headers": {"Authorization": f"Bearer {token}"}}
    if path.endswith("/queue-reports"):
        cluster = Cluster.objects.get(pk=world.stage["cluster"])
        token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
        return {"headers": {"Authorization": f"Bearer {token}"}}
    if (
        "/platform/" not in path
        and "/organizations/" not in path
        and label != "POST /api/v1/projects/{project}/tokens"
    ):
        return {"headers": {"Authorization": f"Bearer {token_for(world.alice, world.project)}"}}
    client = Client()
    client.force_login(world.olga if "/platform/" in path else world.alice)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    cookies = {settings.SESSION_COOKIE_NAME: session, settings.CSRF_COOKIE_NAME: CSRF}
    return {"headers": {"X-CSRFToken": CSRF}, "cookies": cookies}


def play(
    strategy: Any, caller: dict[str, dict[str, str]], place: dict[str, Any] | None, *, examples: int
) -> set[int]:
    """Every example in a savepoint of its own, so that all meet the same world."""
    seen: set[int] = set()
    wanted = place or {}

    @hypothesis_settings(BOUNDED, max_examples=examples)
    @given(case=strategy)
    def one(case: Any) -> None:
        for name in case.path_parameters:
            if name in wanted:
                case.path_parameters[name] = wanted[name]
        savepoint = transaction.savepoint()
        try:
            response = case.call(**caller)
            seen.add(response.status_code)
            case.validate_response(response, checks=CHECKS)
            if case.method != "GET":
                counters_must_match()
        finally:
            transaction.savepoint_rollback(savepoint)

    run: Callable[[], None] = one
    run()
    return seen


@pytest.mark.django_db
@pytest.mark.usefixtures("_one_connection")
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("size", SIZES)
def test_operations(size: int, room: str, subtests: pytest.Subtests, world: World) -> None:
    def check(label: str) -> None:
        answers_as_documented(label, SIZES[size], world)

    each_apart(subtests, ((label, (label,)) for label in ROOMS[room]), check)


def answers_as_documented(label: str, size: Size, world: World) -> None:
    operation, place = operations()[label], world.stage
    caller = credentials(label, world)
    valid = operation.as_strategy(GenerationMode.POSITIVE)
    seen = play(valid, caller, place, examples=size.in_place)
    assert 401 not in seen
    # a body may name what is not there, and then another one has to show that the place is; of a single one nothing is excused, but
    # for who is named by a username and for what is named by a path in a home
    named = "username" in label or "/files" in label
    assert 404 not in seen or any(status < 300 for status in seen) or named
    play(valid, caller, None, examples=size.made_up)
    odd = operation.as_strategy(GenerationMode.NEGATIVE)
    with contextlib.suppress(Unsatisfiable):  # there is nothing that could be wrong with it
        play(odd, caller, place, examples=size.odd)
