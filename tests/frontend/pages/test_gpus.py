"""What GPUs did, on the pages of a workspace, a project's month and a node."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User
from tests.frontend.markup import flat
from tests.frontend.pages.conftest import signed_in
from tests.gpustats.stage import MINUTE, keep, keep_all, node_make, reading
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


def test_a_month_has_what_was_used_of_what_was_held(alice_at: Client, plain: Workspace, priced: None) -> None:
    at = clock.now().replace(day=1, hour=12) - timedelta(days=1)
    keep_all(plain, at, 60, [reading(plain)])
    url = f"{reverse('frontend:usage', args=[plain.project.slug])}?month={at:%Y-%m}&by=type"
    told = flat(alice_at.get(url).content.decode())
    assert "Used of what was held" in told
    assert "0.8" in told
    assert "0.6 kWh" in told


def test_operators_see_who_has_each_device_of_a_node(olga: User, plain: Workspace) -> None:
    keep(plain.site, clock.now(), reading(plain), reading(None, device="GPU-1", index="1"))
    url = reverse("frontend:operator_node", args=[plain.site.slug, "h100-01"])
    told = flat(signed_in(olga).get(url).content.decode())
    assert "weather-lm/train" in told
    assert "none of ours" in told
