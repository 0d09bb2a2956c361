"""An order as a document: what makes a job is what its document says, and that makes the same job again."""

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.api.v1.jobs.shapes import JobInput
from gpuaas.catalog.services import site_probe
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.core.plain_yaml import plain_read
from gpuaas.jobs.document import FIELDS, document_of, order_of
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_submit
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.jobs.stage import credential_in

pytestmark = pytest.mark.django_db

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
FOLDERS = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9_ /-]{0,9}", fullmatch=True)


def stored(row: Job) -> Job:
    return Job.objects.select_related("pool__gpu_type").get(pk=row.pk)


def moved(addresses: list[str]) -> st.SearchStrategy[list[dict[str, str]]]:
    each = st.fixed_dictionaries(
        {"url": st.sampled_from(addresses), "credential": st.just("archive"), "volume": st.just("on")},
        optional={"folder": FOLDERS},
    )
    return st.lists(each, max_size=3)


ORDERS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["train", "on", "0", "1e3"]),
        "image": st.sampled_from(["train:1", "a", "1:30", "null"]),
    },
    optional={
        "command": st.lists(WORDS, max_size=4),
        "arguments": st.lists(WORDS, max_size=4),
        "variables": st.dictionaries(NAMES, WORDS, max_size=4),
        "gpu": st.just("h100-sxm-80gb"),
        "gpus": st.integers(0, 1),
        "vcpus": st.integers(1, 4),
        "memory_gib": st.integers(1, 4),
        "volume": st.just("no"),
        "deadline_seconds": st.none() | st.integers(1, 9999),
        "retries": st.integers(0, 3),
        "tasks": st.integers(1, 4),
        "inputs": moved(["s3://sets/a b", "s3://sets/x#y"]),
        "outputs": moved(["s3://sets/out"]),
    },
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(order=ORDERS, together=st.booleans(), at_once=st.none() | st.just(1))
def test_an_order_its_document_and_the_order_again(
    workspace: Workspace, as_alice: Actor, order: dict[str, Any], together: bool, at_once: int | None
) -> None:
    if "credential" not in vars(workspace):
        vars(workspace)["credential"] = credential_in(workspace)
        site_probe(workspace.site_id)
    asked = {**order, "workspace": str(workspace.pk), "mount": "/data" if order.get("volume") else ""}
    if order.get("tasks", 1) > 1:
        launched = {"launcher": "mpi"} if order.get("command") else {"runtime": "torch-distributed"}
        asked |= {"together": True, **launched} if together else {"at_once": at_once}
    first = stored(job_submit(actor=as_alice, project=workspace.project, given=asked))
    text = document_of(first)
    read = plain_read(text).value
    assert read == order_of(first)
    second = stored(job_submit(actor=as_alice, project=workspace.project, given=read))
    kept = [name for name in (*FIELDS, "pool_id", "staging", "state") if name not in {"gpu", "workspace"}]
    assert [getattr(first, name) for name in kept] == [getattr(second, name) for name in kept]
    assert first.workspace_id == second.workspace_id
    assert document_of(second) == text
    Job.objects.filter(workspace=workspace).delete()


def test_it_has_the_fields_of_the_api() -> None:
    assert {*FIELDS, "template"} == set(JobInput().fields)


def test_all_that_is_wrong_is_named_at_once(workspace: Workspace, as_alice: Actor) -> None:
    wrong: dict[str, Any] = {
        "workspace": str(uuid4()),
        "name": 3,
        "image": None,
        "gpu": ["h100"],
        "gpus": "many",
        "command": {"a": 1},
        "actor": "olga",
        "again": "x",
        "inputs": [{"url": "s3://sets/a", "credential": "x", "volume": "data", "secret": "y"}],
    }
    with pytest.raises(Invalid) as refused:
        job_submit(actor=as_alice, project=workspace.project, given=wrong)
    assert set(refused.value.fields) == {*wrong, "inputs.0.secret"} - {"inputs"}
    with pytest.raises(Invalid) as refused:
        job_submit(actor=as_alice, project=workspace.project, given={})
    assert set(refused.value.fields) == {"workspace", "name", "image"}
    assert not Job.objects.exists()


@pytest.mark.parametrize("place", ["", None, 3, ["x"], "not-an-id", {}])
def test_a_workspace_is_named_by_its_id(workspace: Workspace, as_alice: Actor, place: Any) -> None:
    given = {"workspace": place, "name": "train", "image": "train:1"}
    with pytest.raises(Invalid) as refused:
        job_submit(actor=as_alice, project=workspace.project, given=given)
    assert set(refused.value.fields) == {"workspace"}


def test_another_projects_workspace_is_none(
    workspace: Workspace, as_alice: Actor, as_charlie: Actor, other_project: Project
) -> None:
    given = {"workspace": str(workspace.pk), "name": "train", "image": "train:1"}
    for actor in (as_charlie, as_alice):
        with pytest.raises((Invalid, NotFound)):
            job_submit(actor=actor, project=other_project, given=given)
    assert not Job.objects.exists()
