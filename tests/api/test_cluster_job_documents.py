"""Jobs on a Slurm cluster as YAML by REST: sent, refused in the one shape, given back, and sent again as they are."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.clusters.job_document import FIELDS
from gpuaas.clusters.models import Cluster, ClusterJob
from tenants.actors import Actor
from tenants.models import Project, User
from tests.api.caller import Answer, Caller
from tests.clusters.slurm_stage import slurm_ready

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = """
# the same fields as in JSON
name: train
script: |
  module load cuda
  python train.py
gpus_per_node: 2
minutes: 5
"""


@pytest.fixture
def path(as_alice: Actor, as_olga: Actor, project: Project, site: Site, bob: User) -> str:
    cluster: Cluster = slurm_ready(as_alice, as_olga, project, site)
    return f"/api/v1/projects/weather-lm/clusters/{cluster.pk}/jobs"


def sent(caller: Caller, path: str, text: str | bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = text if isinstance(text, bytes) else text.encode()
    return Answer(caller.client.post(path, body, content_type="application/yaml", headers=named))


def test_a_document_is_submitted_and_given_back(path: str, bob: User, charlie: User) -> None:
    bobs = Caller(bob)
    made = sent(bobs, path, TEXT)
    assert (made.status, made.json["gpus_per_node"], made.json["minutes"]) == (202, 2, 5)
    assert made.json["script"] == "#!/bin/bash -l\nmodule load cuda\npython train.py\n"
    file = f"{made.headers['Location']}/file"
    answer = bobs.get(file, Accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/yaml")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="train.yaml"'
    text = answer.content.decode()
    assert "  module load cuda\n  python train.py\n" in text
    assert "nodes" not in text.replace("gpus_per_node", "")
    again = sent(bobs, path, answer.content)
    assert {name: made.json[name] for name in FIELDS} == {name: again.json[name] for name in FIELDS}
    assert bobs.get(f"{again.headers['Location']}/file").content == answer.content
    charlies = Caller(charlie)
    assert sent(charlies, path, TEXT).status == charlies.get(file).status == 404
    assert ClusterJob.objects.count() == 2


def test_the_same_key_submits_once(path: str, bob: User) -> None:
    bobs = Caller(bob)
    answers = [sent(bobs, path, each, Idempotency_Key="one") for each in (TEXT, f"# again\n{TEXT}")]
    assert len({each.json["id"] for each in answers}) == ClusterJob.objects.count() == 1


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ("nodes: 1.5", "nodes", "valid integer"),
        ("nodes: 9\ntasks: 9", "nodes", "gpu has 1 worker, and this asks for 9 nodes"),
        ("secret: x", "secret", "unknown field"),
        ("partition: cpu", "partition", "choose one of gpu"),
        ("minutes: 7", "minutes", "line 9: this name is given twice"),
        ("inputs: [{url: s3://sets/a, key: b, folder: x}]", "inputs.0.key", "unknown field"),
        ("inputs: [{url: s3://sets/a, credential: b, folder: ../x}]", "inputs.0.folder", "may not contain"),
    ],
)
def test_a_refusal_names_its_field(path: str, bob: User, more: str, field: str, words: str) -> None:
    refused = sent(Caller(bob), path, f"{TEXT}{more}\n")
    assert (refused.status, refused.code) == (400, "invalid")
    assert words in str(refused.error["fields"][field])
    assert not ClusterJob.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [x, x]\nb: *a", "line 1, column 4: anchors and aliases"),
        ("name: !!python/object/apply:os.system [ls]", "tags"),
        ("name: [train\n", "line 2, column 1: did not find expected"),
        (b"name: \xff", "UTF-8"),
    ],
)
def test_what_is_no_document_is_malformed(path: str, bob: User, text: str | bytes, words: str) -> None:
    refused = sent(Caller(bob), path, text)
    assert (refused.status, refused.code) == (400, "malformed")
    assert words in refused.error["message"]
    assert not ClusterJob.objects.exists()
