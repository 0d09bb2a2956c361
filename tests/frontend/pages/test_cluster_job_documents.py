"""Jobs for a Slurm cluster from a file: pasted or uploaded, refused by line and field, downloaded and sent again."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from gpuaas.catalog.models import Site
from gpuaas.clusters.job_document import order_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.core.plain_yaml import plain_read
from tenants.actors import Actor
from tenants.models import Project, User
from tests.clusters.slurm_stage import by_head, slurm_ready, submitted
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
TEXT = "name: train\r\nscript: |\r\n  true\r\n  python train.py\r\n"


@pytest.fixture
@lasting
def cluster(as_alice: Actor, as_olga: Actor, project: Project, site: Site, bob: User) -> Cluster:
    return slurm_ready(as_alice, as_olga, project, site)


@pytest.fixture
def at(cluster: Cluster) -> str:
    return f"/p/weather-lm/clusters/{cluster.pk}/jobs/"


@pytest.fixture
def bobs(bob: User) -> Client:
    return signed_in(bob)


def uploaded(text: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("job.yaml", text if isinstance(text, bytes) else text.encode())


def refusals(client: Client, at: str, **sent: object) -> dict[str, list[str]]:
    answer = client.post(f"{at}new/file/", {"document": "", **sent})
    assert answer.status_code == 422
    assert not ClusterJob.objects.exists()
    return dict(answer.context["form"].errors)


def test_it_is_pasted_and_the_example_is_one(bobs: Client, at: str) -> None:
    assert f"{at}new/file/" in words(bobs.get(f"{at}new/"))
    page = bobs.get(f"{at}new/file/")
    assert f"{at}new/" in words(page)
    assert "1 worker, each with 2 GPUs" in words(page)
    answer = bobs.post(f"{at}new/file/", {"document": TEXT})
    job = ClusterJob.objects.get()
    assert answer["Location"] == f"{at}{job.pk}/"
    assert job.script == "#!/bin/bash -l\ntrue\npython train.py\n"
    assert plain_read(page.context["example"]).value["gpus_per_node"] == 1
    assert bobs.post(f"{at}new/file/", {"document": page.context["example"]}).status_code == 302


def test_any_job_is_downloaded_and_sent_again(bobs: Client, at: str, cluster: Cluster, as_bob: Actor) -> None:
    first = submitted(as_bob, cluster, script="echo 'a'\n\n\techo b\n", minutes=9)
    assert "Download as YAML" in words(bobs.get(f"{at}{first.pk}/"))
    answer = bobs.get(f"{at}{first.pk}/job.yaml")
    assert (answer["Content-Type"], answer["Content-Disposition"]) == (
        "application/yaml",
        'attachment; filename="train.yaml"',
    )
    sent = {"document": "", "file": uploaded(answer.content)}
    assert bobs.post(f"{at}new/file/", sent).status_code == 302
    pasted = {"document": answer.content.decode().replace("\n", "\r\n")}  # as browsers send lines
    assert bobs.post(f"{at}new/file/", pasted).status_code == 302
    assert [order_of(each) for each in ClusterJob.objects.all()] == [order_of(first)] * 3


def test_refusals_name_line_and_field(bobs: Client, at: str) -> None:
    found = refusals(bobs, at, document=f"{TEXT}gpus_per_node: 3\r\nminutes: many\r\nsize: 1\r\n")
    assert found["document"] == [
        "Line 5, gpus_per_node: GPUs per node: a worker of gpu has 2, and this asks for 3.",
        "Line 6, minutes: The time limit in minutes must be a whole number from 1 to 525,600.",
        "Line 7, size: unknown field.",
    ]
    found = refusals(bobs, at, document=f"{TEXT}name: again")
    assert found["document"] == ["Line 5, name: this name is given twice."]
    assert refusals(bobs, at, file=uploaded(b"\xff\xfe")) == {"file": ["It is not a text in UTF-8."]}
    assert refusals(bobs, at)["document"]


def test_it_is_tried_while_it_is_typed(bobs: Client, at: str) -> None:
    check = f"{at}new/file/?check"
    assert "Line 5, nodes" in words(bobs.post(check, {"document": f"{TEXT}nodes: 9\r\ntasks: 9"}))
    assert "Line" not in words(bobs.post(check, {"document": TEXT}))
    assert not ClusterJob.objects.exists()


def test_a_cluster_that_takes_none_says_why(bobs: Client, at: str, cluster: Cluster) -> None:
    by_head()
    Cluster.objects.filter(pk=cluster.pk).update(logins=["bob"])
    assert "was made before the portal could hand jobs to it" in words(bobs.get(f"{at}new/file/"))
    assert bobs.post(f"{at}new/file/", {"document": TEXT}).status_code == 422


def test_only_who_may_submit_sees_the_form(
    dora: User, charlie: User, at: str, cluster: Cluster, as_bob: Actor
) -> None:
    job, doras, charlies = submitted(as_bob, cluster), signed_in(dora), signed_in(charlie)
    for method in ("get", "post"):
        assert getattr(doras, method)(f"{at}new/file/").status_code == 403
        assert getattr(charlies, method)(f"{at}new/file/").status_code == 404
    assert doras.get(f"{at}{job.pk}/job.yaml").status_code == 200
    assert charlies.get(f"{at}{job.pk}/job.yaml").status_code == 404
