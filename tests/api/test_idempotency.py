"""The same request sent twice is done once."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from gpuaas.api.idempotency import keys_forget
from gpuaas.api.models import IdempotencyKey
from gpuaas.catalog.models import Site
from gpuaas.celery import app
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.models import ApiToken, Project, User
from tests.api.addresses import addresses
from tests.api.caller import Caller, token_for
from tests.factories.quotas import counters_must_match, limits_give

HOME = "/projects/weather-lm/workspaces"
ASKED: dict[str, Any] = {"name": "train-7b", "items": [{"flavor": "h100.1", "count": 2}]}
# what writes nothing; and machines' reports, of which each stage is taken once and the last of a queue counts
SAFE = {
    "cluster-plan",
    "cluster-policy-dry-run",
    "cluster-scale-plan",
    "node-reports",
    "platform-usage-import-preview",
    "queue-reports",
    "workspace-preview",
    "workspace-quote",
}


def test_every_post_honors_the_key() -> None:
    posts = [(each.name, each.handler("POST")) for each in addresses() if "POST" in each.methods]
    assert len(posts) >= 6
    assert {name for name, handler in posts if not getattr(handler, "handles_idempotency", False)} == SAFE


@pytest.mark.django_db
def test_same_key_same_request_same_answer(program: Caller, limits: None) -> None:
    first = program.post(HOME, ASKED, Idempotency_Key="k1")
    again = program.post(HOME, dict(reversed(ASKED.items())), Idempotency_Key="k1")
    assert first.status == again.status == 202
    assert first.json == again.json
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert Workspace.objects.count() == 1
    counters_must_match()


@pytest.mark.django_db
def test_same_key_other_request_is_a_mistake(program: Caller, limits: None) -> None:
    program.post(HOME, ASKED, Idempotency_Key="k1")
    refused = program.post(HOME, ASKED | {"name": "other"}, Idempotency_Key="k1")
    assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    assert Workspace.objects.count() == 1


@pytest.mark.django_db
def test_a_refusal_leaves_the_key_free(program: Caller, project: Project, site: Site) -> None:
    limits_give(project, {"gpu:h100-sxm-80gb": 0})
    assert program.post(HOME, ASKED, Idempotency_Key="k1").status == 409
    assert not IdempotencyKey.objects.exists()
    limits_give(project)
    assert program.post(HOME, ASKED, Idempotency_Key="k1").status == 202


@pytest.mark.django_db
def test_keys_are_of_one_caller(program: Caller, bobs: Caller, limits: None) -> None:
    assert program.post(HOME, ASKED, Idempotency_Key="k1").status == 202
    assert bobs.post(HOME, ASKED | {"name": "bobs"}, Idempotency_Key="k1").status == 202


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "status"), [("viewer", 403), (None, 404)])
def test_who_lost_the_right_gets_no_answer_of_before(
    bobs: Caller, bob: User, project: Project, limits: None, role: str | None, status: int
) -> None:
    rows = project.memberships.filter(user=bob)
    rows.update(role="admin")
    program = Caller(token=token_for(bob, project, scopes=["workspace:view", "workspace:create"]))
    for caller in (bobs, program):
        body = ASKED | {"name": f"of-{len(caller.headers)}"}
        assert caller.post(HOME, body, Idempotency_Key="k1").status == 202
    rows.update(role=role) if role else rows.delete()
    for caller in (bobs, program):
        body = ASKED | {"name": f"of-{len(caller.headers)}"}
        again = caller.post(HOME, body, Idempotency_Key="k1")
        assert again.status == status
        assert "Idempotency-Replayed" not in again.headers


@pytest.mark.django_db
def test_a_key_ends_after_a_day_and_old_ones_are_swept(program: Caller, limits: None) -> None:
    program.post(HOME, ASKED, Idempotency_Key="k1")
    program.post(HOME, ASKED | {"name": "two"}, Idempotency_Key="k2")
    IdempotencyKey.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert program.post(HOME, ASKED | {"name": "three"}, Idempotency_Key="k1").status == 202
    keys_forget()
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k1"]


@pytest.mark.django_db
def test_an_answer_does_not_wait_for_another_request_to_be_forgotten(program: Caller, limits: None) -> None:
    for key in ("old", "young"):
        program.post(HOME, ASKED | {"name": key}, Idempotency_Key=key)
    IdempotencyKey.objects.filter(key="old").update(expires_at=clock.now())
    app.loader.import_default_modules()
    (due,) = {each["task"] for each in settings.CELERY_BEAT_SCHEDULE.values()} & {"api.keys_forget"}
    app.tasks[due].apply().get()
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["young"]


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "k" * 129])
def test_a_malformed_key(program: Caller, limits: None, key: str) -> None:
    assert program.post(HOME, ASKED, Idempotency_Key=key).status == 400
    assert not Workspace.objects.exists()


@pytest.mark.django_db
def test_a_secret_answer_is_not_kept(alices: Caller) -> None:
    expires = (clock.now() + timedelta(days=1)).isoformat()
    body = {"name": "ci", "scopes": ["workspace:view"], "expires_at": expires}
    made = alices.post("/projects/weather-lm/tokens", body, Idempotency_Key="k1")
    assert made.status == 201, made.json
    assert made.json["token"].startswith("gpa_")
    again = alices.post("/projects/weather-lm/tokens", body, Idempotency_Key="k1")
    assert (again.status, again.code) == (409, "idempotency_replayed")
    row = IdempotencyKey.objects.get()
    assert row.body is None
    assert made.json["token"].split("_")[2] not in str(row.__dict__)
    assert ApiToken.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("minutes", "code"), [(1, "idempotency_in_progress"), (10, "idempotency_interrupted")]
)
def test_what_was_interrupted_is_not_tried_on_for_a_day(alices: Caller, minutes: int, code: str) -> None:
    """Of a process that was killed before the answer: a program obeys Retry-After."""
    expires = (clock.now() + timedelta(days=1)).isoformat()
    body = {"name": "ci", "scopes": ["workspace:view"], "expires_at": expires}
    assert alices.post("/projects/weather-lm/tokens", body, Idempotency_Key="k1").status == 201
    begun = clock.now() - timedelta(minutes=minutes)
    IdempotencyKey.objects.update(status=None, expires_at=begun + timedelta(hours=24))
    again = alices.post("/projects/weather-lm/tokens", body, Idempotency_Key="k1")
    assert (again.status, again.code) == (409, code)
    assert ("Retry-After" in again.headers) is (minutes == 1)


@pytest.mark.django_db
def test_a_refused_secret_leaves_the_key_free(alices: Caller) -> None:
    body = {"name": "ci", "scopes": ["workspace:view"], "expires_at": "2001-01-01T00:00:00Z"}
    assert alices.post("/projects/weather-lm/tokens", body, Idempotency_Key="k1").status == 400
    assert not IdempotencyKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_eight_at_once_with_one_key_make_one(alice: User, project: Project, site: Site) -> None:
    limits_give(project)
    raw = token_for(alice, project)
    gate, answers = threading.Barrier(8), []

    def ask() -> None:
        try:
            caller = Caller(token=raw)
            gate.wait()
            answers.append(caller.post(HOME, ASKED, Idempotency_Key="k1"))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [202] * 8
    assert len({answer.json["id"] for answer in answers}) == 1
    assert Workspace.objects.count() == 1
    counters_must_match()
