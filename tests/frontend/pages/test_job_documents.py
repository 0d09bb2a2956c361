"""Jobs from a file: pasted or uploaded, refused by line and field, tried while it is typed, downloaded and sent again."""

import html

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.core.plain_yaml import LONGEST
from gpuaas.jobs.document import order_of
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.jobs.stage import row_in, submitted, workspace_ready
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


def at(name: str, project: Project, *more: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *more])


def text_of(room: Workspace, more: str = "") -> str:
    return f"workspace: {room.pk}\r\nname: train\r\nimage: train:1\r\n{more}"


def test_refusals_are_in_the_order_of_lines(alice_at: Client, project: Project, room: Workspace) -> None:
    page = words(
        alice_at.post(at("job_new_file", project), {"document": text_of(room, "vcpus: x\r\ngpus: y\r\n")})
    )
    assert 0 < page.index("ine 4, vcpus") < page.index("ine 5, gpus")


def uploaded(text: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("job.yaml", text if isinstance(text, bytes) else text.encode())


def refusals(client: Client, project: Project, **sent: object) -> dict[str, list[str]]:
    answer = client.post(at("job_new_file", project), {"document": "", **sent})
    assert answer.status_code == 422
    assert not Job.objects.exists()
    return dict(answer.context["form"].errors)


def test_it_is_pasted(alice_at: Client, room: Workspace, project: Project) -> None:
    page = words(alice_at.get(at("job_new", project)))
    assert at("job_new_file", project) in page
    form = html.unescape(words(alice_at.get(at("job_new_file", project))))
    assert f"workspace: {room.pk}" in form
    script = "command:\r\n- sh\r\n- -c\r\n- |\r\n  set -e\r\n  true\r\n"
    answer = alice_at.post(at("job_new_file", project), {"document": text_of(room, script)})
    row = Job.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, at("job", project, row.pk))
    assert row.command == ["sh", "-c", "set -e\ntrue\n"]


def test_what_is_downloaded_is_uploaded_unchanged(
    alice_at: Client, as_alice: Actor, room: Workspace, project: Project
) -> None:
    first = submitted(as_alice, room, command=["sh", "-c", "on\n \x85\n"], gpus=1, variables={"A": "1\r\n2"})
    assert "Download as YAML" in words(alice_at.get(at("job", project, first.pk)))
    answer = alice_at.get(at("job_file", project, first.pk))
    assert (answer["Content-Type"], answer["Content-Disposition"]) == (
        "application/yaml",
        'attachment; filename="train.yaml"',
    )
    sent = {"document": "", "file": uploaded(answer.content)}
    assert alice_at.post(at("job_new_file", project), sent).status_code == 302
    pasted = {"document": answer.content.decode().replace("\n", "\r\n")}  # as browsers send lines
    assert alice_at.post(at("job_new_file", project), pasted).status_code == 302
    assert [order_of(each) for each in Job.objects.all()] == [order_of(first)] * 3


def test_refusals_name_line_and_field(alice_at: Client, room: Workspace, project: Project) -> None:
    found = refusals(alice_at, project, document=text_of(room, "gpus: 3\r\nretries: many\r\nsize: 1\r\n"))
    assert set(found["document"]) == {
        "Line 4, gpus: the workspace has bought 2 H100 SXM 80 GB: a job that asks for 3 never starts.",
        "Line 5, retries: Retries must be a whole number from 0 to 10.",
        "Line 6, size: unknown field.",
    }
    found = refusals(alice_at, project, document=text_of(room, "gpus: 3\r\n"))
    assert len(found["document"]) == 1
    found = refusals(alice_at, project, document="name: train\r\nname: [")
    assert found["document"][0].startswith("Line 3, column 1: ")
    found = refusals(alice_at, project, document="a: &x [1]\r\nb: *x")
    assert found["document"] == ["Line 1, column 4: anchors and aliases (& and *) are not used here."]
    found = refusals(alice_at, project, document=text_of(room, "name: again"))
    assert found["document"] == ["Line 4, name: this name is given twice."]
    for nothing in ("", " \r\n", "# nothing"):
        assert refusals(alice_at, project, document=nothing)["document"]


def test_a_file_is_refused_beside_its_field(alice_at: Client, room: Workspace, project: Project) -> None:
    for text, said in (
        (b"\xff\xfe", "It is not a text in UTF-8."),
        ("#" * (LONGEST + 1), "It is longer than 512 KiB."),
        (text_of(room, "image: x"), "Line 4, image: this name is given twice."),
    ):
        assert refusals(alice_at, project, file=uploaded(text)) == {"file": [said]}


def test_it_is_tried_while_it_is_typed(alice_at: Client, room: Workspace, project: Project) -> None:
    check = f"{at('job_new_file', project)}?check"
    said = words(alice_at.post(check, {"document": text_of(room, "gpus: 9")}))
    assert "Line 4, gpus" in said
    assert "Paste a document, or choose a file" in words(alice_at.post(check, {"document": ""}))
    assert "Line" not in words(alice_at.post(check, {"document": text_of(room)}))
    assert "Paste" not in words(alice_at.post(check, {"document": "", "file": uploaded(text_of(room))}))
    assert not Job.objects.exists()


def test_only_who_may_submit_sees_the_form(
    dora: User, charlie_at: Client, as_charlie: Actor, room: Workspace, project: Project
) -> None:
    dora_at, row = signed_in(dora), row_in(room)
    for method in ("get", "post"):
        assert getattr(dora_at, method)(at("job_new_file", project)).status_code == 403
        assert getattr(charlie_at, method)(at("job_new_file", project)).status_code == 404
    assert dora_at.get(at("job_file", project, row.pk)).status_code == 200
    assert charlie_at.get(at("job_file", project, row.pk)).status_code == 404
