"""Pages of jobs: submitted, refused beside the field, seen live, cancelled, run again and deleted."""

import uuid
from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_probe
from gpuaas.jobs.models import Job
from gpuaas.jobs.services import job_cancel, queue_start
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_suspend
from tenants.actors import Actor
from tenants.models import Project, User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import FAILS, row_in, run_now, running, settle, submitted, workspace_ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


def at(name: str, project: Project, *more: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *more])


def order(room: Workspace, **changes: object) -> dict[str, object]:
    usual = {"workspace": str(room.pk), "name": "train", "gpu": "", "image": "train:1"}
    return {
        **usual,
        "gpus": 1,
        "vcpus": 4,
        "memory_gib": 16,
        "retries": 0,
        "priority": "normal",
        "tasks": 1,
        **changes,
    }


def test_it_is_submitted_and_its_page_says_how_it_ended(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    assert "No jobs yet" in words(alice_at.get(at("jobs", project)))
    form = words(alice_at.get(at("job_new", project)))
    assert "What is free" in form
    assert "Storage in GiB" in form
    given = {"command": "sh -c 'exit 3'", "variables": "EPOCHS=3\r\nURL=a=b", "deadline_seconds": "600"}
    answer = alice_at.post(at("job_new", project), order(room, **given, retries=1))
    row = Job.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, at("job", project, row.pk))
    assert (row.command, row.variables) == (["sh", "-c", "exit 3"], {"EPOCHS": "3", "URL": "a=b"})
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "Queued" in shown
    assert f"Number 1 in the queue of {room.name}" in shown
    settle(row)
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "It failed: Error" in shown
    assert "Its command ended with exit code 3." in shown
    assert "2 of at most 2" in shown
    assert "$ sh -c exit 3" in shown
    assert "every 5s" not in alice_at.get(at("job", project, row.pk)).content.decode()
    assert "Error" in words(alice_at.get(at("jobs", project)))


def test_it_is_cancelled_run_again_and_deleted(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = running(as_alice, room, command=["sleep", "99 99"], gpus=1)
    assert "Cancel job" in words(alice_at.get(at("job", project, row.pk)))
    assert alice_at.post(at("job_cancel", project, row.pk)).status_code == 302
    row = settle(row)
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "It was cancelled" in shown
    assert "Cancel job" not in shown
    refused = settle(submitted(as_alice, room))
    answer = alice_at.post(at("job_cancel", project, refused.pk))
    assert any("succeeded" in str(each) for each in get_messages(answer.wsgi_request))

    form = alice_at.get(at("job_rerun", project, row.pk)).content.decode()
    assert "sleep &#x27;99 99&#x27;" in form
    answer = alice_at.post(at("job_rerun", project, row.pk), order(room, command="true", name="second"))
    again = Job.objects.get(name="second")
    assert answer["Location"] == at("job", project, again.pk)
    assert again.again_id == row.pk
    assert at("job", project, row.pk) in alice_at.get(at("job", project, again.pk)).content.decode()

    alice_at.post(at("job_delete", project, row.pk), {"confirm_name": "wrong"})
    assert Job.objects.get(pk=row.pk).state == "suspended"
    assert alice_at.post(at("job_delete", project, row.pk), {"confirm_name": "train"}).status_code == 302
    assert settle(row, "deleted").state == "deleted"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Not A Name"}, "use 1 to 40 lower-case"),
        ({"image": "a b"}, "enter the name of a container image"),
        ({"gpus": "3"}, "has bought 2 h100 sxm 80 gb: a job that asks for 3 never starts"),
        ({"gpus": "-1"}, "must be a whole number from 0"),
        ({"vcpus": "many"}, "enter a whole number"),
        ({"command": "sh -c 'exit"}, "close the quotes"),
        ({"variables": "EPOCHS"}, "as name=value"),
        ({"variables": "1=2"}, "a variable is named by letters"),
        ({"retries": "11"}, "from 0 to 10"),
        ({"tasks": "1001"}, "from 1 to 1,000"),
        ({"tasks": "4", "at_once": "5"}, "there are 4 tasks: no more can run at once"),
        ({"together": "on"}, "one task has no others"),
        ({"tasks": "3", "together": "on"}, "a job whose 3 tasks at once ask for 3 never starts"),
        ({"tasks": "2", "together": "on", "at_once": "2"}, "leave this out"),
        ({"tasks": "2", "launcher": "mpi"}, "it starts tasks that run together"),
        ({"tasks": "2", "together": "on", "launcher": "mpi", "command": ""}, "enter what task 0 runs"),
        (
            {"tasks": "2", "together": "on", "launcher": "mpi", "volume": "data", "mount": "/run"},
            "the launcher has its own files in /run/gpuaas; choose another folder, such as /data",
        ),
        ({"tasks": "2", "runtime": "torch-distributed"}, "it makes tasks that run together"),
        ({"volume": "data"}, "enter the folder where the volume is mounted"),
        ({"workspace": str(uuid.uuid4())}, "choose one of the workspaces"),
    ],
)
def test_a_refusal_is_beside_its_field(
    alice_at: Client, room: Workspace, project: Project, change: dict[str, str], said: str
) -> None:
    site_probe(room.site_id)
    answer = alice_at.post(at("job_new", project), order(room, **change))
    assert answer.status_code == 422
    assert said in words(answer).lower()
    assert not Job.objects.exists()


def test_the_list_says_what_is_waited_for(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    running(as_alice, room, gpus=1)
    submitted(as_alice, room, "later", gpus=2)
    queue_start(workspace_id=room.pk)
    shown = words(alice_at.get(at("jobs", project)))
    assert "waits for 2 H100 SXM 80 GB: 1 of 2 is free" in shown
    assert "later" in words(alice_at.get(at("jobs", project) + "?state=requested"))
    assert "later" not in words(alice_at.get(at("jobs", project) + "?state=ready"))


def test_its_priority_is_changed_while_it_waits(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    busy = running(as_alice, room, gpus=2, deadline_seconds=3600)
    first = submitted(as_alice, room, "first", gpus=1, deadline_seconds=60)
    given = order(room, name="second", priority="low")
    assert alice_at.post(at("job_new", project), given).status_code == 302
    second = Job.objects.get(name="second")
    answer = alice_at.get(at("job", project, second.pk))
    for each in ("Number 2 in the queue", "It starts by", "at the latest"):
        assert each in words(answer)
    assert ("Priority", "low") in [(fact.term, fact.value) for fact in answer.context["page"].facts]
    facts = alice_at.get(at("job", project, first.pk)).context["page"].facts
    assert ("Deadline", "1 min") in [(fact.term, fact.value) for fact in facts]
    answer = alice_at.post(at("job_prioritize", project, second.pk), {"priority": "high"}, follow=True)
    assert "The priority of second is high." in words(answer)
    assert "Number 1 in the queue" in words(alice_at.get(at("job", project, second.pk)))
    refused = alice_at.post(at("job_prioritize", project, first.pk), {"priority": "urgent"})
    assert any("high, normal, low" in str(each) for each in get_messages(refused.wsgi_request))
    assert "second,Queued" in b"".join(alice_at.get(f"{at('jobs', project)}?csv=1")).decode()
    assert "Set priority" in alice_at.get(at("job", project, second.pk)).content.decode()
    assert "Set priority" not in alice_at.get(at("job", project, busy.pk)).content.decode()


def test_with_its_workspace_asleep_nothing_is_submitted(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = settle(submitted(as_alice, room, command=FAILS))
    assert "Run again" in words(alice_at.get(at("job", project, row.pk)))
    workspace_suspend(actor=as_alice, workspace=room)
    assert "Run again" not in words(alice_at.get(at("job", project, row.pk)))
    assert "No workspace is ready for one" in words(alice_at.get(at("job_new", project)))


def test_a_viewer_sees_and_runs_nothing(
    dora: User, as_alice: Actor, room: Workspace, project: Project, charlie_at: Client
) -> None:
    row = row_in(room)
    dora_at = signed_in(dora)
    page = words(dora_at.get(at("job", project, row.pk)))
    assert "train" in words(dora_at.get(at("jobs", project)))
    assert "Cancel job" not in page
    assert "epoch 1" not in page  # its log
    for name in ("cancel", "delete", "rerun"):
        address = at(f"job_{name}", project, row.pk)
        assert dora_at.post(address, {"confirm_name": "train"}).status_code == 403
        assert charlie_at.post(address, {"confirm_name": "train"}).status_code == 404
    assert dora_at.get(at("job_new", project)).status_code == 403
    for name in ("jobs", "job_new"):
        assert charlie_at.get(at(name, project)).status_code == 404
    assert charlie_at.get(at("job", project, row.pk)).status_code == 404


def test_lists_cost_the_same_at_any_length(alice_at: Client, room: Workspace, project: Project) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            assert alice_at.get(at("jobs", project)).status_code == 200
        return len(found)

    row_in(room)
    queries()
    one = queries()
    for number in range(3):
        row_in(room, f"more-{number}")
    assert queries() == one


def test_all_mistakes_are_named_at_once(alice_at: Client, room: Workspace, project: Project) -> None:
    """Those that cannot be read, and those that the service finds."""
    mistakes = {
        "name": "Not A Name",
        "image": "a b",
        "command": "python\x00 train.py",
        "arguments": "'open",
        "variables": "EPOCHS=3\nEPOCHS=4",
        "gpus": "3",
        "vcpus": "many",
        "memory_gib": "99999",
        "volume": "No_Volume",
        "mount": "/etc/x",
        "retries": "11",
        "deadline_seconds": "0",
        "tasks": "many",
        "at_once": "999",
    }
    form = alice_at.post(at("job_new", project), order(room, **mistakes)).context["form"]
    assert set(form.errors) == set(mistakes)
    said = {name: texts for name, texts in form.errors.items() if name in {"command", "variables", "mount"}}
    assert said == {
        "command": ["Word 1 contains a null character, which no program can be given."],
        "variables": ["EPOCHS is named twice. Keep one of the lines."],
        "mount": [
            "Nothing may be mounted in /etc, which belongs to the image's own system; choose another one, such as /data."
        ],
    }
    nowhere = alice_at.post(at("job_new", project), order(room, name="No", image="a b", workspace="x"))
    assert set(nowhere.context["form"].errors) == {"name", "image", "workspace"}


def test_an_order_at_a_site_that_is_not_confirmed_says_that_it_waits(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    waits = "waits until an operator has confirmed the site."
    assert waits not in words(alice_at.get(at("job_new", project)))
    Site.objects.update(confirmed=False)
    assert f"What is ordered at {room.site.slug} {waits}" in words(alice_at.get(at("job_new", project)))


def test_an_array_shows_its_tasks_and_the_log_of_each_that_failed(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    fails = "sh -c 'if [ $JOB_COMPLETION_INDEX = 3 ]; then exit 3; fi'"
    alice_at.post(
        at("job_new", project), order(room, gpus=0, vcpus=1, memory_gib=1, tasks="30", command=fails)
    )
    row = Job.objects.get()
    assert (row.tasks, row.at_once, row.together) == (30, 30, False)
    page = at("job", project, row.pk)
    assert "30 waiting" in words(alice_at.get(page))
    settle(row)
    shown = words(alice_at.get(page))
    for each in ("29 succeeded, 1 failed", "30, 30 at once", "1 of 30 tasks failed: 3", "Log of task 3"):
        assert each in shown
    assert "JOB_COMPLETION_INDEX=3" in shown
    found = alice_at.get(page).context["list"]
    assert ([each.number for each in found.rows][:3], len(found.rows)) == ([3, 0, 1], 25)
    assert (found.rows[0].log_url, found.rows[1].log_url) == (f"{page}?task=3", "")
    failed = alice_at.get(f"{page}?state=failed").context["list"]
    assert [each.number for each in failed.rows] == [3]
    assert "3,failed" in b"".join(alice_at.get(f"{page}?csv=1")).decode().lower()
    assert "29 succeeded, 1 failed" not in words(alice_at.get(at("jobs", project)))  # the reason is there
    assert "30 tasks, each" in words(alice_at.get(at("jobs", project)))


def test_a_task_is_followed(alice_at: Client, as_alice: Actor, room: Workspace, project: Project) -> None:
    row = running(as_alice, room, tasks=3, together=True, launcher="mpi")
    page = at("job", project, row.pk)
    shown = words(alice_at.get(page))
    assert "3, together, started by MPI" in shown
    assert "Log of task 0" in shown
    assert "3 running" in words(alice_at.get(at("jobs", project)))
    answer = alice_at.post(at("job_follow", project, row.pk), {"task": "2"})
    assert (answer.status_code, answer["Location"]) == (302, f"{page}?task=2")
    assert "Not available: nothing has been taken of it" in words(alice_at.get(f"{page}?task=2"))
    run_now(row)
    shown = words(alice_at.get(f"{page}?task=2"))
    assert "JOB_COMPLETION_INDEX=2" in shown
    for wrong in ({"task": "3"}, {"task": "x"}, {}):
        refused = alice_at.post(at("job_follow", project, row.pk), wrong)
        assert any("tasks are 0 to 2" in str(each) for each in get_messages(refused.wsgi_request))
    form = alice_at.get(at("job_rerun", project, row.pk)).context["form"]
    assert [form[name].value() for name in ("tasks", "together", "launcher", "at_once")] == [
        3,
        True,
        "mpi",
        None,
    ]


def test_a_training_runtime_is_chosen_where_a_site_has_one(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    assert "Training runtime" not in words(alice_at.get(at("job_new", project)))
    site_probe(room.site_id)
    assert "torch-distributed (torch)" in words(alice_at.get(at("job_new", project)))
    several = {"tasks": "2", "together": "on", "runtime": "torch-distributed"}
    assert alice_at.post(at("job_new", project), order(room, **several)).status_code == 302
    row = Job.objects.get()
    assert (row.runtime, row.together) == ("torch-distributed", True)
    shown = words(alice_at.get(at("job", project, row.pk)))
    assert "2, together, by the training runtime torch-distributed" in shown
    Site.objects.filter(pk=room.site_id).update(runtimes=[])
    again = at("job_rerun", project, row.pk)
    assert alice_at.get(again).context["form"]["runtime"].value() == "torch-distributed"
    refused = alice_at.post(again, order(room, **several))
    assert "offers no training runtimes: leave this out" in words(refused)


def test_one_task_is_followed_and_that_is_seen(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = submitted(as_alice, room, tasks=3, at_once=3)
    page, follow = at("job", project, row.pk), at("job_follow", project, row.pk)
    assert "Follow it below to have its log taken" in words(alice_at.get(f"{page}?task=1"))
    assert "is followed" not in words(alice_at.get(page))
    first = alice_at.post(follow, {"task": "1"}, follow=True)
    assert "no longer is" not in words(first)
    shown = alice_at.get(f"{page}?task=1")
    assert "It is followed, so its log is taken as soon as it writes something." in words(shown)
    assert "Task 1 is followed; one is at a time." in words(shown)
    rows = {each.number: each for each in shown.context["list"].rows}
    assert [(rows[task].followed, rows[task].follows) for task in range(3)] == [
        (False, True),
        (True, False),
        (False, True),
    ]
    assert words(shown).count("<small>followed</small>") == 1
    second = words(alice_at.post(follow, {"task": "2"}, follow=True))
    assert "One task is followed at a time: task 1 no longer is." in second
    assert "Task 2 is followed" in second
    job_cancel(actor=as_alice, job=row)
    settle(row)
    for task in ("0", "2"):
        ended = words(alice_at.get(f"{page}?task={task}"))
        assert "nothing of it was taken before it ended." in ended
        assert "ollow" not in ended.partition('id="log-title"')[2].partition("<footer")[0]


@pytest.mark.parametrize("task", ["3", "-1", "x", "²", "0000000001234", "0" * 5000])
def test_an_address_of_no_task_shows_the_job(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project, task: str
) -> None:
    row = running(as_alice, room, tasks=3)
    shown = words(alice_at.get(f"{at('job', project, row.pk)}?task={task}"))
    assert "Log of task 0" in shown


def test_a_teammate_sees_why_it_cannot_be_changed(
    alice_at: Client, bob_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = submitted(as_alice, room)
    shown = words(bob_at.get(at("job", project, row.pk)))
    assert f"it belongs to {room.name}, whose members with the role Edit or Admin can change it" in shown
    assert 'data-dialog="cancel"' not in shown
    assert bob_at.post(at("job_cancel", project, row.pk)).status_code in {403, 404}
    assert "You can only view it" not in words(alice_at.get(at("job", project, row.pk)))


@pytest.mark.parametrize("verb", ["suspend", "extend", "delete"])
def test_what_a_teammate_is_offered_of_a_workspace_is_done(
    bob_at: Client, room: Workspace, project: Project, verb: str
) -> None:
    """Members of a project change what it holds, whoever asked for it: the limits and the money are the project's."""
    assert f'data-dialog="{verb}"' in words(bob_at.get(at("workspace", project, room.pk)))
    sent = {"confirm_name": room.name, "until": f"{room.lease_ends_at + timedelta(days=2):%Y-%m-%dT%H:%M}"}
    assert bob_at.post(at(f"workspace_{verb}", project, room.pk), sent).status_code == 302
    room.refresh_from_db()
    assert room.version > 1
