"""Templates of jobs: what they hold is judged, what they lock counts, and jobs keep their names."""

from collections.abc import Callable
from typing import Any

import pytest

from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused
from gpuaas.core.ids import uuid7
from gpuaas.jobs.document import document_of
from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.jobs.selectors import template_named, templates_for
from gpuaas.jobs.services import job_submit, template_change, template_create, template_delete
from gpuaas.jobs.services.templates import TEMPLATES_MOST
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project, User
from tenants.selectors import actor_for
from tenants.services import project_member_set
from tests.jobs.stage import credential, template

pytestmark = pytest.mark.django_db
MOVED = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": ""}


@pytest.fixture
def as_dora(project: Project) -> Actor:
    """A viewer."""
    row = User.objects.create_user("dora", password="secret")
    project_member_set(actor=SYSTEM, project=project, user=row, role="viewer")
    return actor_for(user=row)


def ordered(actor: Actor, workspace: Workspace, **given: Any) -> Job:
    asked = {"template": "training", "workspace": str(workspace.pk), "name": "mine", **given}
    return job_submit(actor=actor, project=workspace.project, given=asked)


def refused(actor: Actor, project: Project, **given: Any) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as error:
        job_submit(actor=actor, project=project, given=given)
    return error.value.fields


def test_an_order_has_its_values_where_it_is_silent(workspace: Workspace, as_alice: Actor) -> None:
    order = {"image": "train:7", "gpus": 2, "command": ["train"], "variables": {"EPOCHS": "3"}}
    template(as_alice, workspace.project, order=order)
    found = ordered(as_alice, workspace, gpus=1, command=[])
    assert (found.image, found.gpus, found.command) == ("train:7", 1, [])
    assert (found.variables, found.template) == ({"EPOCHS": "3"}, "training")
    assert "template" not in document_of(found), "it stays the same job, whatever becomes of the template"
    entry = AuditEntry.objects.get(action="job.create")
    assert (entry.after or {})["template"] == "training"


def test_all_of_an_order_can_be_its(workspace: Workspace, as_alice: Actor) -> None:
    order = {"workspace": workspace.pk, "name": "nightly", "image": "train:7"}
    made = template(as_alice, workspace.project, order=order, locked=["name", "workspace"])
    assert made.order == {**order, "workspace": str(workspace.pk)}
    found = job_submit(actor=as_alice, project=workspace.project, given={"template": "training"})
    assert (found.name, found.workspace) == ("nightly", workspace)


def test_what_it_locks_cannot_be_given_another_value(workspace: Workspace, as_alice: Actor) -> None:
    credential(as_alice, workspace.project)
    order = {"image": "train:7", "command": ("a", "b"), "inputs": [MOVED]}
    locked = ["inputs", "retries", "image", "command", "gpu"]
    made = template(as_alice, workspace.project, order=order, locked=locked)
    assert made.locked == ["image", "command", "gpu", "retries", "inputs"]
    wrong = {"image": "other:1", "retries": 2, "inputs": [], "gpus": 9, "gpu": "h100-sxm-80gb"}
    at = {"template": "training", "workspace": str(workspace.pk), "name": "mine"}
    with pytest.raises(Invalid) as error:
        job_submit(actor=as_alice, project=workspace.project, given=at | wrong)
    words = "the template training locks this field: leave it out"
    assert error.value.fields == {
        **{name: [words] for name in ("image", "retries", "inputs", "gpu")},
        "gpus": ["the workspace has bought 4 H100 SXM 80 GB: a job that asks for 9 never starts"],
    }
    same = {"image": "train:7", "command": ["a", "b"], "retries": 0, "gpu": ""}
    found = ordered(as_alice, workspace, **same, inputs=[{k: v for k, v in MOVED.items() if v}])
    assert (found.image, found.command, found.inputs) == ("train:7", ["a", "b"], [MOVED])


@pytest.mark.parametrize("name", ["", None, 3, "gone", "a\x00b", "\ud800", ["training"]])
def test_one_that_there_is_not(workspace: Workspace, as_alice: Actor, name: Any) -> None:
    given = {"template": name, "workspace": str(workspace.pk), "name": "mine", "image": "train:1", "gpus": -1}
    found = refused(as_alice, workspace.project, **given)
    assert set(found) == {"template", "gpus"}
    assert found["template"][0].startswith("the project has no template")
    assert not Job.objects.exists()


def test_its_values_are_judged_as_an_orders(workspace: Workspace, as_alice: Actor) -> None:
    wrong: dict[str, Any] = {"gpus": "many", "gpu": "h900", "workspace": str(uuid7()), "name": "No Name"}
    wrong |= {"actor": "olga", "image": "", "variables": {"1": ""}, "inputs": [MOVED], "at_once": 2}
    with pytest.raises(Invalid) as error:
        template(as_alice, workspace.project, "No Name", order=wrong, locked=["actor"], description="a\nb")
    inside = {"inputs.0.credential" if name == "inputs" else name for name in wrong}
    assert set(error.value.fields) == {*(f"order.{each}" for each in inside), "name", "locked", "description"}
    others: tuple[Any, ...] = ([], None, "image")
    for other in others:
        with pytest.raises(Invalid) as error:
            template(as_alice, workspace.project, order=other)
        assert set(error.value.fields) == {"order"}
    for locked in (["image"], "image", [["image"]], None):
        with pytest.raises(Invalid) as error:
            template(as_alice, workspace.project, order={}, locked=locked)
        assert set(error.value.fields) == {"locked"}
    with pytest.raises(Invalid, match="may have 65,536 characters"):
        template(as_alice, workspace.project, order={"arguments": ["x" * 8000] * 9})
    assert not JobTemplate.objects.exists()


def test_what_became_impossible_is_refused_when_it_is_submitted(
    workspace: Workspace, as_alice: Actor
) -> None:
    made = template(as_alice, workspace.project, order={"image": "train:7", "gpus": 4}, locked=["gpus"])
    JobTemplate.objects.update(order={**made.order, "gpu": "gone-gpu"})
    with pytest.raises(Invalid, match="has not bought such GPUs") as error:
        ordered(as_alice, workspace)
    assert set(error.value.fields) == {"gpu"}
    changed = template_change(actor=as_alice, template=made, description="For later")
    assert changed.order["gpu"] == "gone-gpu", "what is not changed is not judged"
    template_change(actor=as_alice, template=made, order={"image": "train:7", "gpus": 9})
    with pytest.raises(QuotaRefused, match="has bought 4"):
        ordered(as_alice, workspace)


def test_a_name_is_there_once(workspace: Workspace, as_alice: Actor, as_bob: Actor) -> None:
    project = workspace.project
    first, second = template(as_alice, project), template(as_bob, project, "other")
    saves: list[Callable[[], JobTemplate]] = [
        lambda: template(as_bob, project),
        lambda: template_change(actor=as_alice, template=second, name=first.name),
    ]
    for save in saves:
        with pytest.raises(Conflict, match="a template training already") as error:
            save()
        assert set(error.value.fields) == {"name"}
    assert list(JobTemplate.objects.values_list("name", flat=True)) == ["other", "training"]


def test_jobs_stay_when_it_is_changed_and_deleted(workspace: Workspace, as_alice: Actor) -> None:
    made = template(as_alice, workspace.project)
    found = ordered(as_alice, workspace)
    template_change(actor=as_alice, template=made, name="newer", order={"image": "train:8"})
    template_change(actor=as_alice, template=made, name="newer")
    stale = JobTemplate.objects.get()
    for _ in range(2):
        template_delete(actor=as_alice, template=made)
    found.refresh_from_db()
    assert (found.template, found.image) == ("training", "train:7")
    with pytest.raises(NotFound, match="no such template"):
        template_change(actor=as_alice, template=stale, description="too late")
    assert set(refused(as_alice, workspace.project, template="newer", name="mine")) > {"template"}
    entries = AuditEntry.objects.filter(action__startswith="job_template.").order_by("pk")
    assert [each.action.partition(".")[2] for each in entries] == ["create", "change", "delete"]


def test_the_audit_log_names_what_changed_and_keeps_no_values(
    workspace: Workspace, as_alice: Actor, as_bob: Actor
) -> None:
    order = {"image": "train:7", "variables": {"KEY": "secret-1"}, "command": ["sh"], "gpus": 1}
    made = template(as_alice, workspace.project, order=order, locked=["gpus"])
    order |= {"variables": {"KEY": "secret-2"}, "arguments": ["--key=secret-3"]}
    del order["command"]
    template_change(actor=as_bob, template=made, order=order, name="newer", description="secret-4")
    template_change(actor=as_bob, template=made, order=order)
    entries = AuditEntry.objects.filter(action__startswith="job_template.").order_by("pk")
    assert [(each.actor, each.before, each.after) for each in entries] == [
        (
            "alice",
            None,
            {"name": "training", "order": ["image", "command", "variables", "gpus"], "locked": ["gpus"]},
        ),
        (
            "bob",
            None,
            {"changed": ["name", "description", "order.command", "order.arguments", "order.variables"]},
        ),
    ]


def test_who_may(
    workspace: Workspace, as_alice: Actor, as_dora: Actor, as_charlie: Actor, as_olga: Actor
) -> None:
    """A viewer reads; an outsider finds nothing, and an operator sees it as she sees jobs."""
    project = workspace.project
    made = template(as_alice, project)
    for actor in (as_dora, as_olga):
        assert template_named(actor=actor, project=project, name="training") == made
    changes: list[Callable[[Actor], object]] = [
        lambda who: template(who, project, "mine"),
        lambda who: template_change(actor=who, template=made, name="mine"),
        lambda who: template_delete(actor=who, template=made),
    ]
    for actor, error in ((as_dora, Forbidden), (as_charlie, NotFound)):
        for change in changes:
            with pytest.raises(error):
                change(actor)
    with pytest.raises(NotFound):
        templates_for(actor=as_charlie, project=project)
    assert JobTemplate.objects.get().name == "training"


def test_a_project_has_so_many(workspace: Workspace, as_alice: Actor) -> None:
    first = template(as_alice, workspace.project)
    JobTemplate.objects.bulk_create(
        JobTemplate(
            project=first.project, name=f"t-{n}", created_by=first.created_by, created_at=first.created_at
        )
        for n in range(TEMPLATES_MOST - 1)
    )
    with pytest.raises(Conflict, match=f"has {TEMPLATES_MOST} templates"):
        template_create(actor=as_alice, project=first.project, name="more", order={})
