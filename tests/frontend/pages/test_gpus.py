"""What GPUs did, on the pages of a workspace and what runs in it, a project's month and a node."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from billing.months import month_of
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.environments.stage import row_in as environment_in
from tests.factories.tenants import OrganizationMembershipFactory, UserFactory
from tests.frontend.markup import flat
from tests.frontend.pages.conftest import signed_in
from tests.gpustats.stage import MINUTE, keep, keep_all, node_make, reading
from tests.jobs.stage import row_in as job_in
from tests.lasting import lasting
from tests.metering.stage import workspace_make


@pytest.fixture
@lasting
def plain(project: Project, h100: Flavor, alice: User) -> Workspace:
    node_make(h100)
    return workspace_make(project, h100, alice)


def gpus(client: Client, workspace: Workspace) -> str:
    url = reverse("frontend:workspace_gpus", args=[workspace.project.slug, workspace.pk])
    return client.get(url).content.decode()


def test_pods_with_their_devices_and_a_chart(bob_at: Client, plain: Workspace) -> None:
    keep_all(
        plain,
        clock.now() - 3 * MINUTE,
        3,
        [reading(plain), reading(plain, device="GPU-1", index="1", xid=31)],
    )
    text = gpus(bob_at, plain)
    told = flat(text)
    for each in ("train-0", "GPU 0", "h100-01", "80%", "58.6 of 78 GiB", "600 W", "60 °C", "31"):
        assert each in told, each
    assert 'data-chart="' in text
    assert "Use of the GPUs in the last 24 hours" in told


def test_a_page_that_has_nothing_says_why(bob_at: Client, plain: Workspace) -> None:
    assert "ber-1 has reported nothing about its GPUs" in flat(gpus(bob_at, plain))
    type(plain.site).objects.update(driver="sandbox-cloud")
    assert "the portal does not look into them" in flat(gpus(bob_at, plain))


def test_the_workspace_fetches_it(bob_at: Client, plain: Workspace) -> None:
    page = reverse("frontend:workspace", args=[plain.project.slug, plain.pk])
    assert f'hx-get="{page}gpus/"' in " ".join(bob_at.get(page).content.decode().split())


def inside(plain: Workspace, **changes: object) -> tuple[Job, Environment]:
    """A job that has run for two hours, and an environment, each with a GPU."""
    held = {"pool": plain.flavors.get().flavor.pool, "gpus": 1, **changes}
    begun = clock.now() - timedelta(hours=2)
    job = job_in(plain, "a", state="ready", holding=True, ready_at=begun, **held)
    Job.objects.update(created_at=begun - MINUTE)
    return job, environment_in(plain, "lab", **held)


def address(row: Job | Environment, name: str) -> str:
    return reverse(f"frontend:{name}", args=[row.project.slug, row.pk])


def test_a_job_and_an_environment_show_their_own(
    bob_at: Client, charlie: User, olga: User, plain: Workspace
) -> None:
    job, lab = inside(plain)
    own = {f"{job.external_name}-x7k2p": "1", lab.external_name: "2", f"{job.external_name}-b-x7k2p": "3"}
    told = [reading(plain, pod=pod, device=f"GPU-{index}", index=index) for pod, index in own.items()]
    keep_all(plain, clock.now() - 3 * MINUTE, 3, told)
    titles = {"job": "Use of its GPUs while it ran", "environment": "Use of the GPUs in the last 24 hours"}
    for row, noun, (mine, *others) in (
        (job, "job", ["GPU 1", "GPU 2", "GPU 3"]),
        (lab, "environment", ["GPU 2", "GPU 1", "GPU 3"]),
    ):
        url = address(row, f"{noun}_gpus")
        page = " ".join(bob_at.get(address(row, noun)).content.decode().split())
        assert f'hx-get="{url}" hx-trigger="load, every 60s" hx-select="#gpus-card"' in page
        text = bob_at.get(url).content.decode()
        said = flat(text)
        for each in (f"GPUs of {row.name}", mine, "58.6 of 78 GiB", "600 W", "60 °C", titles[noun]):
            assert each in said, each
        assert not [each for each in others if each in said]
        assert 'data-chart="' in text
        assert signed_in(charlie).get(url).status_code == 404
        assert signed_in(olga).get(url).status_code == 200


def test_where_they_have_none_nothing_is_asked(bob_at: Client, plain: Workspace) -> None:
    job, lab = inside(plain)
    assert "ber-1 has reported nothing about its GPUs" in flat(
        bob_at.get(address(job, "job_gpus")).content.decode()
    )
    assert "ber-1 has reported nothing about its GPUs" in flat(
        bob_at.get(address(lab, "environment_gpus")).content.decode()
    )
    Job.objects.update(gpus=0, pool=None)
    Environment.objects.update(gpus=0, pool=None)
    assert "gpus/" not in bob_at.get(address(job, "job")).content.decode()
    assert "gpus/" not in bob_at.get(address(lab, "environment")).content.decode()


def test_the_chart_of_a_job_that_has_ended(bob_at: Client, plain: Workspace) -> None:
    job, _ = inside(plain)
    begun, pod = clock.now() - timedelta(days=4), f"{job.external_name}-x7k2p"
    over = {"state": "succeeded", "outcome": "succeeded", "holding": False}
    Job.objects.update(created_at=begun, ready_at=begun, finished_at=clock.now() - timedelta(hours=5), **over)
    keep_all(plain, clock.now() - timedelta(hours=6), 10, [reading(plain, pod=pod)])
    assert 'hx-trigger="load"' in bob_at.get(address(job, "job")).content.decode()
    said = flat(bob_at.get(address(job, "job_gpus")).content.decode())
    for each in (pod, "until ", "Means of each hour", "nothing is kept any more"):
        assert each in said, each


def test_a_month_has_what_was_used_of_what_was_held(alice_at: Client, plain: Workspace, priced: None) -> None:
    at = clock.now().replace(day=1, hour=12) - timedelta(days=1)
    keep_all(plain, at, 60, [reading(plain)])
    url = f"{reverse('frontend:usage', args=[plain.project.slug])}?month={at:%Y-%m}&by=type"
    told = flat(alice_at.get(url).content.decode())
    assert "Used of what was held" in told
    assert "0.8" in told
    assert "0.6 kWh" in told


def test_who_sees_money_alone_has_costs_by_gpu_type_without_it(plain: Workspace, priced: None) -> None:
    """The role billing may not see what workspaces do."""
    at = clock.now()
    UsageInterval.objects.create(
        site=plain.site,
        project=plain.project,
        workspace=plain,
        flavor=plain.flavors.get().flavor,
        consumer_uid="holding:1",
        meter=Meter.GPU_HELD,
        resource_name="nvidia.com/gpu",
        quantity=8,
        started_at=at - timedelta(minutes=2),
        last_seen_at=at,
    )
    bill = UserFactory.create(username="bill")
    OrganizationMembershipFactory.create(organization=plain.project.organization, user=bill, role="billing")
    url = f"{reverse('frontend:usage', args=[plain.project.slug])}?month={month_of(at):%Y-%m}&by=type"
    answer = signed_in(bill).get(url)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert 'data-l="Unit">GPU h<' in text
    assert "Used of what was held" not in text


def test_operators_see_who_has_each_device_of_a_node(olga: User, plain: Workspace) -> None:
    keep(plain.site, clock.now(), reading(plain), reading(None, device="GPU-1", index="1"))
    url = reverse("frontend:operator_node", args=[plain.site.slug, "h100-01"])
    told = flat(signed_in(olga).get(url).content.decode())
    assert "weather-lm/train" in told
    assert "none of ours" in told
