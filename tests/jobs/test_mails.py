"""Who hears by e-mail that a job has ended: whoever submitted it and asked for it, once, while they may still read it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from smtplib import SMTPRecipientsRefused
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends import locmem
from django.db import connection
from pytest_django import Settings

from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_rerun, job_retry
from gpuaas.jobs.states import JobState
from gpuaas.jobs.tasks import mails
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import User
from tenants.selectors import actor_for
from tests.jobs.stage import FAILS, credential, fresh, later, row_in, settle, submitted


@pytest.fixture(autouse=True)
def _reachable(alice: User) -> None:
    alice.email = "alice@example.org"
    alice.save()


def ended(actor: Actor, workspace: Workspace, **wanted: Any) -> Job:
    return settle(submitted(actor, workspace, **{"mail": True, **wanted}))


def test_once_and_only_when_it_has_ended(as_alice: Actor, workspace: Workspace, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://gpu.example.org"
    row = submitted(as_alice, workspace, mail=True)
    settle(submitted(as_alice, workspace, name="silent"))
    assert mails() == 0, "one has not ended, and nobody asked about the other"
    settle(row)
    assert [mails(), mails()] == [1, 0]
    (letter,) = mail.outbox
    assert (letter.to, letter.subject) == (["alice@example.org"], "Job train succeeded")
    assert f"https://gpu.example.org/p/{workspace.project.slug}/jobs/{row.pk}/" in str(letter.body)


def test_a_failure_says_why(as_alice: Actor, workspace: Workspace) -> None:
    row = ended(as_alice, workspace, command=FAILS)
    assert mails() == 1
    (letter,) = mail.outbox
    assert letter.subject == "Job train failed"
    assert row.failure
    assert f"{row.failure}\n\nExit code: 3\n" in str(letter.body)


def test_whoever_may_not_read_it_any_more_hears_nothing(bob: User, workspace: Workspace) -> None:
    bob.email = "bob@example.org"
    bob.save()
    bob.project_memberships.update(role="admin")
    ended(actor_for(user=bob), workspace)
    bob.project_memberships.all().delete()
    assert (mails(), mail.outbox) == (0, [])


def test_without_an_address_or_a_mail_server_or_long_after(
    as_alice: Actor, alice: User, workspace: Workspace, settings: Settings
) -> None:
    ended(as_alice, workspace)
    settings.MAILS_ENABLED = False
    assert mails() == 0
    settings.MAILS_ENABLED = True
    with time_machine.travel(now() + timedelta(days=4)):
        assert mails() == 0, "that is no news any more"
    User.objects.filter(pk=alice.pk).update(email="")
    assert (mails(), mail.outbox) == (0, [])


def test_what_the_server_refuses_is_sent_later(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(as_alice, workspace)

    def refuse(*_: Any) -> int:
        raise ConnectionRefusedError

    with monkeypatch.context() as patched:
        patched.setattr(locmem.EmailBackend, "send_messages", refuse)
        assert mails() == 0
    assert mails() == 1


def test_an_address_that_the_server_refuses_keeps_nobody_waiting(
    as_alice: Actor, bob: User, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob.email = "bobb@example.org"
    bob.save()
    bob.project_memberships.update(role="admin")
    for name in ("one", "two", "three"):
        ended(actor_for(user=bob), workspace, name=name)
    ended(as_alice, workspace)
    send, asked = locmem.EmailBackend.send_messages, list[str]()

    def judge(backend: locmem.EmailBackend, letters: list[EmailMessage]) -> int:
        asked.extend(letters[0].to)
        if letters[0].to == [bob.email]:
            raise SMTPRecipientsRefused({bob.email: (550, b"no such user")})
        return send(backend, letters)

    monkeypatch.setattr(locmem.EmailBackend, "send_messages", judge)
    monkeypatch.setattr("gpuaas.jobs.mails.BATCH", 2)
    assert mails() == 1
    assert asked == [bob.email, "alice@example.org"], "the server is asked about it once a round"
    assert Job.objects.filter(mailed_at=None).count() == 3, "the server may take them later"


def test_one_whose_files_are_moved_again_ends_once_more(as_alice: Actor, workspace: Workspace) -> None:
    credential(as_alice, workspace.project)
    claim_create(workspace.site_id, workspace.external_name, "data", gib=10)
    files = {"url": "s3://missing/digits", "credential": "archive", "volume": "data", "folder": "in"}
    row = later(submitted(as_alice, workspace, mail=True, inputs=[files]), "failed")
    assert [mails(), mails()] == [1, 0]
    Job.objects.filter(pk=row.pk).update(inputs=[{**files, "url": "s3://sets/digits"}])
    row = later(job_retry(actor=as_alice, job=fresh(row)), "succeeded")
    assert [mails(), mails()] == [1, 0]
    assert [letter.subject for letter in mail.outbox] == ["Job train failed", "Job train succeeded"]


def test_one_that_is_tried_again_while_others_are_told_is_told_when_it_ends(
    as_alice: Actor, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round has read it as failed by then; that it succeeds later would be told to nobody."""
    over = {"mail": True, "finished_at": now() - timedelta(minutes=1)}
    row_in(workspace, "first", state=JobState.SUCCEEDED, outcome="succeeded", **over)
    over["finished_at"] = now()
    row = row_in(workspace, "second", state=JobState.FAILED, outcome="failed", staging="in", **over)
    send = locmem.EmailBackend.send_messages

    def meanwhile(backend: locmem.EmailBackend, letters: list[EmailMessage]) -> int:
        if fresh(row).state == JobState.FAILED:
            job_retry(actor=as_alice, job=fresh(row))
        return send(backend, letters)

    monkeypatch.setattr(locmem.EmailBackend, "send_messages", meanwhile)
    assert mails() == 1
    assert [letter.subject for letter in mail.outbox] == ["Job first succeeded"]
    assert fresh(row).mailed_at is None


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_has_sent_meanwhile_is_not_sent_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps the first worker waiting while the job is tried again and ends, which the second tells."""
    row = row_in(
        workspace, state=JobState.FAILED, outcome="failed", staging="in", mail=True, finished_at=now()
    )
    send, first = locmem.EmailBackend.send_messages, threading.current_thread()

    def second() -> int:
        try:
            return mails()
        finally:
            connection.close()

    def judge(backend: locmem.EmailBackend, letters: list[EmailMessage]) -> int:
        if threading.current_thread() is not first:
            return send(backend, letters)
        Job.objects.filter(pk=row.pk).update(mailed_at=None, finished_at=now())
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(second).result() == 1
        raise ConnectionRefusedError

    monkeypatch.setattr(locmem.EmailBackend, "send_messages", judge)
    assert mails() == 0
    monkeypatch.setattr(locmem.EmailBackend, "send_messages", send)
    assert (mails(), len(mail.outbox)) == (0, 1)


def test_it_is_part_of_the_order(as_alice: Actor, workspace: Workspace) -> None:
    row = ended(as_alice, workspace)
    assert job_rerun(actor=as_alice, job=row).mail
    with pytest.raises(Invalid) as refused:
        submitted(as_alice, workspace, mail="yes")
    assert refused.value.fields == {"mail": ["this must be true or false"]}
