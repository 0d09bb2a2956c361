"""Pages of templates of jobs: saved from forms and jobs, listed, submitted with what they lock, changed and deleted."""

import re
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.jobs.models import Job, JobTemplate
from gpuaas.jobs.services import template_change, template_delete
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.frontend.markup import words
from tests.jobs.stage import credential, row_in, submitted, template, template_in, workspace_ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
MOVED = {"url": "s3://sets/digits", "credential": "archive", "volume": "data", "folder": "in"}
FULL: dict[str, Any] = {
    "image": "train:7",
    "command": ["sh", "-c", "a 'b' \"c\""],
    "variables": {"EPOCHS": "3", "URL": "a=b"},
    "gpus": 1,
    "tasks": 2,
    "together": True,
    "deadline_seconds": 600,
    "inputs": [MOVED] * 3,
}


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


def entered(page: str) -> dict[str, str]:
    """What a browser would send of the form that is posted: nothing of what is disabled."""
    (form,) = re.findall(r'<form class="card".*?</form>', page, re.DOTALL)
    found = {}
    for tag in re.findall(r"<input [^>]+>", form):
        if "disabled" in tag or ('type="checkbox"' in tag and "checked" not in tag.replace("checkbox", "")):
            continue
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and name[1] != "csrfmiddlewaretoken":
            found[name[1]] = value[1] if value else "on" if "checkbox" in tag else ""
    texts = re.findall(r'<textarea name="([^"]+)"([^>]*)>\s?(.*?)</textarea>', form, re.DOTALL)
    found |= {name: text for name, attrs, text in texts if "disabled" not in attrs}
    for name, attrs, inner in re.findall(r'<select name="([^"]+)"([^>]*)>(.*?)</select>', form, re.DOTALL):
        if "disabled" not in attrs:
            chosen = re.search(r'value="([^"]*)" selected', inner) or re.search(r'value="([^"]*)"', inner)
            found[name] = chosen[1] if chosen else ""
    return found


def page_of(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def test_it_fills_the_form_and_is_submitted_as_it_is(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    credential(as_alice, project)
    locked = ["image", "command", "variables", "gpus", "together", "inputs", "retries", "gpu"]
    template(as_alice, project, order=FULL, locked=locked, description="Nightly")
    assert "Start from a template" in page_of(alice_at, at("job_new", project))
    url = f"{at('job_new', project)}?template=training"
    page = page_of(alice_at, url)
    assert page.count("Locked by the template training.") == len(locked)
    assert "From the template training. Nightly" in page
    sent = entered(page)
    assert (sent["template"], sent["tasks"]) == ("training", "2")
    assert not sent.keys() & {*locked, "inputs_0_url", "inputs_2_folder"}
    answer = alice_at.post(url, {**sent, "name": "nightly"})
    row = Job.objects.get()
    assert answer["Location"] == at("job", project, row.pk)
    assert {name: getattr(row, name) for name in FULL} == FULL
    assert "training</dd>" in words(alice_at.get(at("job", project, row.pk)))


def test_what_was_locked_meanwhile_is_refused_beside_its_field(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    row = template(as_alice, project)
    given = order(room, template="training", gpus=2)
    template_change(actor=as_alice, template=row, order={"image": "train:7", "gpus": 1}, locked=["gpus"])
    answer = alice_at.post(at("job_new", project), given)
    assert answer.status_code == 422
    assert "Locked by the template training. What you entered is not used." in words(answer)
    sent = entered(answer.content.decode())
    assert "gpus" not in sent
    assert alice_at.post(at("job_new", project), sent).status_code == 302
    assert Job.objects.get().gpus == 1


def test_one_that_was_deleted_meanwhile_is_refused_in_words(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    template_delete(actor=as_alice, template=template(as_alice, project))
    answer = alice_at.post(at("job_new", project), order(room, template="training"))
    assert answer.status_code == 422
    assert "The project has no template training." in words(answer)
    assert not Job.objects.exists()
    assert alice_at.post(at("job_new", project), entered(answer.content.decode())).status_code == 302
    assert "There is no such template" in words(alice_at.get(f"{at('job_new', project)}?template=training"))


def test_a_value_that_became_impossible_is_refused(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    gone = {"gpu": "gone-gpu", "gpus": 1, "workspace": "01a217b0-2b69-76ca-882c-cd2c6d04cabc"}
    row = template(as_alice, project, order={"image": "train:7"})
    for locked in ([], list(gone)):
        JobTemplate.objects.filter(pk=row.pk).update(order={"image": "train:7", **gone}, locked=locked)
        page = page_of(alice_at, f"{at('job_new', project)}?template=training")
        answer = alice_at.post(at("job_new", project), {**entered(page), "name": "train"})
        assert answer.status_code == 422
        assert "There is no such workspace." in words(answer)
    JobTemplate.objects.update(order={"image": "train:7", "gpu": "gone-gpu", "gpus": 1}, locked=["gpu"])
    page = page_of(alice_at, f"{at('job_new', project)}?template=training")
    answer = alice_at.post(at("job_new", project), {**entered(page), "name": "train"})
    assert "The workspace has not bought such GPUs; it has bought h100-sxm-80gb." in words(answer)
    assert not Job.objects.exists()


def test_it_is_saved_from_the_form_of_a_job(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    template(as_alice, project, order={"image": "train:7", "together": True, "tasks": 2}, locked=["together"])
    page = page_of(alice_at, f"{at('job_new', project)}?template=training")
    typed = {**entered(page), "name": "mine", "command": "sh -c 'x y'", "start": "1", "inputs_1_url": "s3://"}
    answer = alice_at.post(at("job_template_new", project), typed)
    assert answer.status_code == 200, "nothing is judged yet"
    sent = entered(answer.content.decode())
    assert (sent["command"], sent["inputs_1_url"], sent["together"]) == (
        "sh -c &#x27;x y&#x27;",
        "s3://",
        "on",
    )
    given = {**sent, "command": "sh -c 'x y'", "inputs_1_url": "", "saved_as": "saved"}
    more = alice_at.post(
        at("job_template_new", project), {**given, "more": "1", "locked": ["image", "command"]}
    )
    assert more.content.decode().count('name="locked"') > 10
    assert len(re.findall(r'name="locked"[^>]*checked', more.content.decode())) == 2
    answer = alice_at.post(at("job_template_new", project), {**given, "locked": ["image", "command"]})
    row = JobTemplate.objects.get(name="saved")
    assert answer["Location"] == at("job_template", project, row.pk)
    assert row.locked == ["image", "command"]
    assert row.order == {
        "workspace": str(room.pk),
        "name": "mine",
        "image": "train:7",
        "tasks": 2,
        "together": True,
        "command": ["sh", "-c", "x y"],
    }


def test_it_is_saved_from_a_job(alice_at: Client, room: Workspace, project: Project) -> None:
    job = row_in(room, command=["a b"], gpus=1, pool=room.flavors.get().flavor.pool, inputs=[MOVED])
    assert at("job_template_of", project, job.pk) in page_of(alice_at, at("job", project, job.pk))
    sent = entered(page_of(alice_at, at("job_template_of", project, job.pk)))
    wrong = alice_at.post(
        at("job_template_of", project, job.pk),
        {**sent, "command": "'a b'", "workspace": "", "locked": ["workspace"], "saved_as": "No Name"},
    )
    assert wrong.status_code == 422
    for sentence in (
        "A template that locks workspace has to have",
        "Name a data credential of the project",
    ):
        assert sentence in words(wrong)
    given = {**sent, "command": "'a b'", "saved_as": "saved", "inputs_0_url": "https://example.org/a"}
    assert (
        alice_at.post(
            at("job_template_of", project, job.pk), {**given, "inputs_0_credential": ""}
        ).status_code
        == 302
    )
    row = JobTemplate.objects.get()
    assert (row.order["command"], row.order["gpu"]) == (["a b"], "h100-sxm-80gb")
    assert row.order["inputs"] == [{"url": "https://example.org/a", "volume": "data", "folder": "in"}]


def test_it_is_listed_shown_changed_and_deleted(
    alice_at: Client, dora_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    assert "No templates yet" in words(alice_at.get(at("job_templates", project)))
    assert "Your role is read-only" in words(dora_at.get(at("job_templates", project)))
    row, other = template_in(room), template(as_alice, project, "other")
    urls = {name: at(f"job_template_{name}", project, row.pk) for name in ("edit", "delete")}
    page = page_of(alice_at, at("job_templates", project))
    for each in (
        at("job_template", project, row.pk),
        *urls.values(),
        f"{at('job_new', project)}?template=training",
    ):
        assert f'"{each}"' in page
    assert "other" not in words(alice_at.get(f"{at('job_templates', project)}?q=train"))
    shown = page_of(dora_at, at("job_template", project, row.pk))
    assert "image: train:7" in shown
    assert "Container image" in shown
    for url in (*urls.values(), at("job_new", project)):
        assert url not in shown + page_of(dora_at, at("job_templates", project))
    sent = entered(page_of(alice_at, urls["edit"]))
    assert (sent["saved_as"], sent["description"], sent["gpus"]) == ("training", "Usual", "1")
    taken = alice_at.post(urls["edit"], {**sent, "saved_as": "other"})
    assert "The project has a template other already: choose another name." in words(taken)
    assert alice_at.post(urls["edit"], {**sent, "saved_as": "newer", "gpus": "2"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.order, row.locked) == ("newer", {"image": "train:7", "gpus": 2}, ["image"])
    for more in ({}, {"more": "1"}):  # from a page that was opened before
        late = alice_at.post(urls["edit"], {**sent, "gpus": "3", **more})
        assert entered(late.content.decode())["version"] == sent["version"] == "1"
    late = alice_at.post(urls["edit"], {**sent, "gpus": "3"})
    assert "The template has changed since you read it; read it again" in words(late)
    assert JobTemplate.objects.get(pk=row.pk).order["gpus"] == 2
    for client, code in ((dora_at, 403), (alice_at, 302)):
        assert client.post(urls["delete"]).status_code == code
    assert list(JobTemplate.objects.all()) == [other]


def test_the_list_asks_no_more_for_more_of_them(alice_at: Client, room: Workspace, project: Project) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as counted:
            alice_at.get(at("job_templates", project))
            alice_at.get(at("job_new", project))
        return len(counted)

    template_in(room)
    queries()
    few = queries()
    for number in range(5):
        template_in(room, f"t-{number}")
    assert queries() == few


def test_what_was_unlocked_meanwhile_is_read_again_and_not_taken_for_empty(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    order = {"image": "train:7", "command": ["python", "train.py"], "deadline_seconds": 3600}
    row = template(as_alice, project, order=order, locked=["command", "deadline_seconds"])
    url = f"{at('job_new', project)}?template=training"
    sent = {**entered(page_of(alice_at, url)), "name": "mine", "workspace": str(room.pk)}
    template_change(actor=as_alice, template=row, locked=["command"])
    answer = alice_at.post(url, sent)
    assert answer.status_code == 422
    assert "The template training locks less than when you opened this form." in words(answer)
    assert "Read it again</a>" in words(answer)
    assert not Job.objects.exists()
    sent = {**entered(page_of(alice_at, url)), "name": "mine", "workspace": str(room.pk)}
    assert alice_at.post(url, sent).status_code == 302
    made = Job.objects.get()
    assert (made.command, made.deadline_seconds) == (["python", "train.py"], 3600)


def test_what_is_run_again_is_the_same_to_the_end_of_each_line(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    """Browsers send the ends of lines as CR LF."""
    given = {
        "command": ["sh", "-c", "python prepare.py\npython train.py\n"],
        "arguments": ["a b", "it's"],
        "variables": {
            "CFG": "lr=1\nepochs=3\n",
            "SPACE": "x ",
            "MORE": "a\n\tb\n\nc",
            "LINE": "one\u2028two",
        },
    }
    row = submitted(as_alice, room, "train", **given)
    url = at("job_rerun", project, row.pk)
    sent = {
        name: unescape(text).replace("\n", "\r\n") for name, text in entered(page_of(alice_at, url)).items()
    }
    assert alice_at.post(url, sent).status_code == 302
    again = Job.objects.exclude(pk=row.pk).get()
    assert {name: getattr(again, name) for name in given} == given
