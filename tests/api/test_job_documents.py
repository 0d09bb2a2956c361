"""Jobs as YAML by REST: sent, refused in the one shape, given back, and sent again as they are."""

import pytest
import yaml

from gpuaas.core.ids import uuid7
from gpuaas.core.plain_yaml import LONGEST
from gpuaas.jobs.document import FIELDS
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from tests.api.caller import Answer, Caller
from tests.jobs.conftest import workspace

__all__ = ["workspace"]

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/weather-lm/jobs"
SCRIPT = "set -e\npython prepare.py\npython train.py\n"


def sent(caller: Caller, text: str | bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = text if isinstance(text, bytes) else text.encode()
    return Answer(caller.client.post(HERE, body, content_type="application/yaml", headers=named))


def test_a_document_is_submitted_and_given_back(alices: Caller, workspace: Workspace) -> None:
    text = f"""
# the same fields as in JSON
workspace: {workspace.pk}
name: train
image: train:1
command: [sh, -c, "python prepare.py"]
variables:
  EPOCHS: "3"
  day: 2026-11-27
gpus: 2
tasks: 3
at_once: 1
"""
    made = sent(alices, text)
    assert (made.status, made.json["gpus"], made.json["command"]) == (
        202,
        2,
        ["sh", "-c", "python prepare.py"],
    )
    assert made.json["variables"] == {"EPOCHS": "3", "day": "2026-11-27"}
    answer = alices.get(f"{made.headers['Location']}/file", Accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/yaml")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="train.yaml"'
    again = sent(alices, answer.content)
    assert again.status == 202
    assert {name: made.json[name] for name in FIELDS} == {name: again.json[name] for name in FIELDS}
    assert alices.get(f"{again.headers['Location']}/file").content == answer.content


def test_a_browser_submits_one_whose_csrf_token_is_checked(alices: Caller, workspace: Workspace) -> None:
    """Who checks that reads the body first, however long it is."""
    alices.client.handler.enforce_csrf_checks = True
    alices.client.cookies["csrftoken"] = token = "a" * 32
    text = f"workspace: {workspace.pk}\nname: train\nimage: train:1\n"
    assert sent(alices, text, X_CSRFToken=token).status == 202
    assert sent(alices, text).code == "csrf_failed"
    assert sent(alices, "#" * 3_000_000, X_CSRFToken=token).status == 413


def test_a_script_is_readable_in_it(alices: Caller, workspace: Workspace) -> None:
    body = {"workspace": str(workspace.pk), "name": "train", "image": "train:1"}
    made = alices.post(HERE, body | {"command": ["sh", "-c", SCRIPT]})
    text = alices.get(f"{made.headers['Location']}/file").content.decode()
    assert "  set -e\n  python prepare.py\n" in text
    assert "retries" not in text


def test_the_same_key_submits_once(alices: Caller, workspace: Workspace) -> None:
    text = f"workspace: {workspace.pk}\nname: train\nimage: train:1\n"
    answers = [sent(alices, each, Idempotency_Key="one") for each in (text, f"# again\n{text}")]
    assert len({each.json["id"] for each in answers}) == Job.objects.count() == 1


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ("gpus: 1.5", "gpus", "valid integer"),
        ("gpus: two", "gpus", "valid integer"),
        ("gpus: true", "gpus", "valid integer"),
        ("variables: {EPOCHS: 3}", "variables.EPOCHS", "valid string"),
        ("command: true", "command", "list"),
        ("secret: x", "secret", "unknown field"),
        ("retries: 1\nretries: 2", "retries", "line 5: this name is given twice"),
        ('command: ["a\\0b"]', "command.0", "line 4: text must not contain null characters"),
        ("inputs: [{url: s3://sets/a, key: b}]", "inputs.0.key", "unknown field"),
        ("mount: /etc/x\nvolume: data", "mount", "nothing may be mounted in /etc"),
    ],
)
def test_a_refusal_names_its_field(
    alices: Caller, workspace: Workspace, more: str, field: str, words: str
) -> None:
    refused = sent(alices, f"workspace: {workspace.pk}\nname: train\nimage: train:1\n{more}\n")
    assert (refused.status, refused.code) == (400, "invalid")
    assert words in str(refused.error["fields"][field])
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "line 1, column 4: anchors and aliases"),
        ("name: !!python/object/apply:os.system [ls]", "tags"),
        ("1: 2", "a name must be a text"),
        ("name: [train\n", "line 2, column 1: did not find expected"),
        ("- name: train", "it has no fields"),
        ("# nothing", "it has no fields"),
        (b"name: \xff", "UTF-8"),
    ],
)
def test_what_is_no_document_is_malformed(alices: Caller, text: str | bytes, words: str) -> None:
    refused = sent(alices, text)
    assert (refused.status, refused.code) == (400, "malformed")
    assert refused.error["message"].startswith("the body is not valid YAML: ")
    assert words in refused.error["message"]


def test_one_that_is_too_large_is_refused(alices: Caller) -> None:
    refused = sent(alices, "name: " + "a" * LONGEST)
    assert (refused.status, refused.code) == (413, "too_large")
    assert refused.error["message"] == "the request body is too large: it may have 512 KiB here"


def test_one_as_long_as_a_page_takes_is_sent_and_sent_back(alices: Caller, workspace: Workspace) -> None:
    words = yaml.safe_dump(["x" * 8_000] * 60)
    made = sent(alices, f"workspace: {workspace.pk}\nname: train\nimage: train:1\ncommand:\n{words}")
    assert made.status == 202, made.json
    found = alices.get(f"{made.headers['Location']}/file").content
    assert 400_000 < len(found) < LONGEST
    assert sent(alices, found).json["command"] == made.json["command"]


def test_other_addresses_take_json_alone(alices: Caller, workspace: Workspace) -> None:
    path = f"{HERE}/{uuid7()}/rerun"
    refused = Answer(alices.client.post(path, b"name: x", content_type="application/yaml"))
    assert refused.status in {404, 415}
    credentials = "/api/v1/projects/weather-lm/data-credentials"
    refused = Answer(alices.client.post(credentials, b"name: x", content_type="application/yaml"))
    assert (refused.status, refused.code) == (415, "unsupported_media_type")


def test_an_outsider_sends_and_gets_nothing(alices: Caller, charlies: Caller, workspace: Workspace) -> None:
    text = f"workspace: {workspace.pk}\nname: train\nimage: train:1\n"
    assert sent(charlies, text).status == 404
    made = sent(alices, text)
    assert charlies.get(f"{made.headers['Location']}/file").status == 404
