"""A kind with workers on its pages: the order asks how many and how large, and the page says how many run."""

import pytest
from django.test import Client

from gpuaas.environments.models import Environment
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.services import environment_create
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project
from tests.environments.stage import kind, run_now, settle
from tests.frontend.markup import words
from tests.frontend.pages.test_environments import at, notebook, order, room
from tests.lasting import lasting

__all__ = ["notebook", "room"]

pytestmark = pytest.mark.django_db
WORKERS = {"most": 4, "count": 2, "vcpus": 4}


@pytest.fixture
@lasting
def cluster(as_alice: Actor, room: Workspace) -> Environment:
    slug = kind("cluster", gpus=0, workers=WORKERS).slug
    made = environment_create(actor=as_alice, workspace=room, kind=slug, name="lab", worker_gpus=1)
    return run_now(settle(made))


def test_the_order_asks_for_workers_and_their_open_sizes(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    slug = kind("cluster", gpus=0, workers=WORKERS).slug
    page = alice_at.get(at("environment_order", project, slug))
    assert "At most 4; none: the main pod works alone" in words(page)
    assert "Each has vCPUs: 4." in words(page)
    assert [each.name for each in page.context["form"].of_workers()] == [
        "workers",
        "worker_gpus",
        "worker_memory_gib",
    ]
    given = order(room, gpus=0, workers=3, worker_gpus=1, worker_memory_gib=8)
    refused = alice_at.post(at("environment_order", project, slug), given)
    (beside,) = refused.context["form"].errors["workers"]
    assert "3 workers ask for 3 H100 SXM 80 GB: 2 of the 2" in beside
    wrong = alice_at.post(at("environment_order", project, slug), {**given, "workers": 5})
    assert "workers" in wrong.context["form"].errors
    assert alice_at.post(at("environment_order", project, slug), {**given, "workers": 2}).status_code == 302
    row = Environment.objects.get()
    assert (row.workers, row.worker_gpus, row.worker_vcpus, row.worker_memory_gib) == (2, 1, 4, 8)


def test_without_workers_nothing_is_asked_of_them(
    alice_at: Client, notebook: Environment, project: Project
) -> None:
    page = alice_at.get(at("environment_order", project, notebook.made_of.kind.slug))
    assert page.context["form"].of_workers() == []
    assert "worker" not in words(alice_at.get(at("environment", project, notebook.pk))).lower()


def test_its_page_says_what_workers_it_has_and_fetches_the_log_of_one(
    alice_at: Client, cluster: Environment, project: Project
) -> None:
    shown = words(alice_at.get(at("environment", project, cluster.pk)))
    assert "12 vCPU, 32 GiB" in shown
    assert "<dt>Of that, the main pod</dt><dd>4 vCPU, 16 GiB</dd>" in shown
    assert "<dt>Workers</dt><dd>2, each 1 GPU, 4 vCPU, 8 GiB; 2 running</dd>" in shown
    assert "2 × H100 SXM 80 GB" in words(alice_at.get(at("environments", project)))
    wrong = alice_at.post(at("environment_log", project, cluster.pk), {"worker": "3"})
    assert "Choose one of its pods." in words(wrong)
    assert alice_at.post(at("environment_log", project, cluster.pk), {"worker": "2"}).status_code == 302
    log_fetch(cluster.pk)
    assert "the last 200 lines of worker 2" in words(alice_at.get(at("environment", project, cluster.pk)))
    alice_at.post(at("environment_log", project, cluster.pk), {"worker": "1"})
    page = alice_at.get(at("environment", project, cluster.pk))
    assert "the last 200 lines of worker 2" in words(page)
    assert "The portal is fetching the log of worker 1." in words(page)
    assert page.context["log_form"]["worker"].value() == 1
