"""The audit log can only grow, and is read by those who may."""

import pytest
from django.db import DatabaseError, connection, transaction

from gpuaas.core.errors import Forbidden, NotFound
from gpuaas.core.request import RequestInfo, current_request
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tenants.selectors import audit_for
from tenants.services import project_update


@pytest.fixture
def entry(as_alice: Actor, project: Project) -> AuditEntry:
    current_request.set(RequestInfo(request_id="request-1", ip="192.0.2.7"))
    project_update(actor=as_alice, project=project, name="Weather")
    return AuditEntry.objects.get()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenants_auditentry SET actor = 'nobody'",
        "DELETE FROM tenants_auditentry",
        "SET LOCAL gpuaas.allow_truncate = off; TRUNCATE tenants_auditentry",
    ],
)
def test_the_database_refuses_to_rewrite_history(entry: AuditEntry, statement: str) -> None:
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEntry.objects.get() == entry


def test_an_entry_says_who_what_and_from_where(entry: AuditEntry, project: Project) -> None:
    assert (entry.actor, entry.action, entry.target_name) == ("alice", "project.update", "weather-lm")
    assert (entry.request_id, entry.ip) == ("request-1", "192.0.2.7")
    assert (entry.project_id, entry.organization_id) == (project.pk, project.organization_id)


def test_who_reads_it(
    entry: AuditEntry, as_alice: Actor, as_bob: Actor, as_charlie: Actor, as_olga: Actor, project: Project
) -> None:
    assert list(audit_for(actor=as_alice, project_id=project.pk)) == [entry]
    assert list(audit_for(actor=as_alice, organization_id=project.organization_id)) == [entry]
    assert list(audit_for(actor=as_olga)) == [entry]
    with pytest.raises(Forbidden):
        audit_for(actor=as_bob, project_id=project.pk)
    for outsider in (as_charlie, as_bob):
        with pytest.raises(NotFound):
            audit_for(actor=outsider, organization_id=project.organization_id)
    with pytest.raises(NotFound):
        audit_for(actor=as_charlie, project_id=project.pk)
    with pytest.raises(NotFound):
        audit_for(actor=as_alice)
