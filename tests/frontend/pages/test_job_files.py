"""Files of jobs on pages: ordered in rows, refused beside them, seen as they move, moved again; and the project's credentials."""

import pytest
from django.test import Client

from gpuaas.jobs.models import DataCredential, Job
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.frontend.markup import words
from tests.frontend.pages.test_jobs import at, order, room
from tests.jobs.stage import SECRET, credential, fresh, later, submitted
from tests.lasting import lasting

__all__ = ["room"]

pytestmark = pytest.mark.django_db
MOVES = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": "in"}
NEW = {"name": "archive", "access_key_id": "AKIDEXAMPLE", "secret": SECRET, "endpoint": "", "region": ""}


def row_of(way: str, number: int, **given: str) -> dict[str, str]:
    return {f"{way}puts_{number}_{part}": value for part, value in given.items()}


@pytest.fixture
@lasting
def stored(as_alice: Actor, project: Project, room: Workspace) -> Workspace:
    credential(as_alice, project)
    claim_create(room.site_id, room.external_name, "data", 10)
    return room


def test_rows_are_ordered_and_shown_as_they_move(
    alice_at: Client, stored: Workspace, project: Project
) -> None:
    html = alice_at.get(at("job_new", project)).content.decode()
    assert 'name="inputs_1_url"' in html
    assert 'name="inputs_2_url"' not in html
    given = order(
        stored, **row_of("in", 1, **MOVES), **row_of("out", 0, **{**MOVES, "url": "s3://results/1"})
    )
    assert alice_at.post(at("job_new", project), given).status_code == 302
    row = Job.objects.get()
    assert (row.inputs, row.outputs) == ([MOVES], [{**MOVES, "url": "s3://results/1"}])
    page = at("job", project, row.pk)
    shown = words(alice_at.get(page))
    assert "Staging in" in shown
    assert "s3://sets/digits → data/in" in shown
    row = later(row, "requested")
    shown = words(alice_at.get(page))
    assert "3.0 GiB of 3.0 GiB, 24 of 24 files" in shown
    again = alice_at.get(at("job_rerun", project, row.pk)).content.decode()
    assert 'value="s3://results/1"' in again


def test_more_rows_are_had_without_scripts_and_nothing_typed_is_lost(
    alice_at: Client, stored: Workspace, project: Project
) -> None:
    given = order(stored, name="Not yet", together="on", command="sh -c 'true", **row_of("in", 0, **MOVES))
    answer = alice_at.post(at("job_new", project), {**given, "more": "1"})
    html = answer.content.decode()
    assert answer.status_code == 200
    assert 'name="inputs_3_url"' in html
    assert 'value="Not yet"' in html
    assert "sh -c &#x27;true" in html
    assert 'value="s3://sets/digits"' in html
    assert 'class="form-error' not in html
    assert not Job.objects.exists()


def test_each_row_is_refused_in_its_place(alice_at: Client, stored: Workspace, project: Project) -> None:
    wrong = row_of("in", 1, **{**MOVES, "folder": "../up", "url": "https://169.254.169.254/a"})
    wrong |= row_of("out", 0, **{**MOVES, "url": "https://example.org/a", "credential": "theirs"})
    answer = alice_at.post(at("job_new", project), order(stored, **wrong))
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {
        "inputs_1_folder",
        "inputs_1_url",
        "inputs_1_credential",
        "outputs_0_url",
        "outputs_0_credential",
    }
    assert not Job.objects.exists()


def test_what_could_not_be_moved_is_moved_again(
    alice_at: Client, as_alice: Actor, stored: Workspace, project: Project
) -> None:
    row = later(submitted(as_alice, stored, inputs=[{**MOVES, "url": "s3://missing/a"}]), "failed")
    assert "its inputs could not be moved" in words(alice_at.get(at("jobs", project)))
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "It failed" in shown
    assert "It failed:" not in shown, "no word is better than one of ours"
    assert "nothing was copied" in shown
    assert "waits" not in shown.partition("Inputs")[2].partition("</section>")[0]
    assert "Its inputs could not be moved: directory not found." in shown
    assert "Move files again" in shown
    assert alice_at.post(at("job_retry", project, row.pk)).status_code == 302
    assert fresh(row).state == "staging_in"
    assert "Move files again" not in words(alice_at.get(at("job", project, row.pk)))


def test_credentials_are_added_refused_and_deleted_and_never_shown(
    alice_at: Client, bob_at: Client, project: Project
) -> None:
    page = at("data_credentials", project)
    assert "No data credentials yet" in words(alice_at.get(page))
    wrong = alice_at.post(page, {**NEW, "name": "No", "endpoint": "http://127.0.0.1"})
    assert (wrong.status_code, set(wrong.context["form"].errors)) == (422, {"name", "endpoint"})
    assert SECRET not in wrong.content.decode()
    assert bob_at.post(page, NEW).status_code == 302
    shown = alice_at.get(page).content.decode()
    assert "AKIDEXAMPLE" in shown
    assert SECRET not in shown
    row = DataCredential.objects.get()
    assert row.secret not in shown
    assert alice_at.post(page, NEW).status_code == 422
    assert alice_at.post(at("data_credential_delete", project, row.pk)).status_code == 302
    assert not DataCredential.objects.exists()
