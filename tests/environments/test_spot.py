"""An environment that borrows its GPUs stays stopped once somebody who bought them needs them, and says why."""

from collections.abc import Iterator

import pytest
import time_machine

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.core.errors import Invalid
from gpuaas.environments.services import environment_create, environment_start, kind_create
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_delete, pod_evict
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry, Project
from tests.environments.stage import DOCUMENT, homes, pods, ready, run_now, settle
from tests.workspaces.spotted import OVER, borrower_ready, buyer_ready, needs_all, one_node, spot_flavor


@pytest.fixture
def travel(db: None) -> Iterator[time_machine.Traveller]:
    with time_machine.travel(now(), tick=False) as found:
        yield found


@pytest.fixture
def lent(travel: object, as_alice: Actor, project: Project, site: Site, h100: Flavor) -> Workspace:
    one_node(site)
    spot_flavor(h100)
    return borrower_ready(as_alice, project, site)


def test_it_stays_stopped_and_says_why(
    as_alice: Actor, project: Project, site: Site, lent: Workspace, travel: time_machine.Traveller
) -> None:
    buyer = buyer_ready(as_alice, project, site)
    row = ready(as_alice, lent, gpus=2)
    travel.shift(5)
    needs_all(buyer)
    travel.shift(OVER)
    row = settle(run_now(row))
    assert (row.get_state_display(), pods(lent), homes(lent)) == ("Stopped", [], [row.external_name])
    assert "somebody who bought them needed them; start it again" in row.conditions[KEPT]["message"]
    assert "preempted at" in row.transitions.get(new="suspending").reason
    assert AuditEntry.objects.filter(action="environment.stop").count() == 1
    pod_delete(buyer.site_id, buyer.external_name, "all")
    environment_start(actor=as_alice, environment=row)
    row = settle(row)
    assert (row.get_state_display(), KEPT in row.conditions) == ("Ready", False)


@pytest.mark.parametrize(
    ("wanted", "open_gpus", "field"),
    [
        ({"gpus": 0, "workers": 1, "worker_gpus": 2}, True, "gpus"),
        ({"gpus": 1, "workers": 1, "worker_gpus": 0}, True, "worker_gpus"),
        ({"gpus": 1, "workers": 1}, False, "workers"),
    ],
)
def test_each_of_its_pods_needs_a_gpu(
    as_alice: Actor, lent: Workspace, wanted: dict[str, int], open_gpus: bool, field: str
) -> None:
    document = {**DOCUMENT, "workers": {"most": 4, **({} if open_gpus else {"gpus": 0})}}
    kind_create(actor=SYSTEM, slug="cluster", name="Cluster", document=document)
    with pytest.raises(Invalid, match="this workspace borrows its GPUs") as refused:
        environment_create(actor=as_alice, workspace=lent, kind="cluster", name="lab", **wanted)
    assert list(refused.value.fields) == [field]
    row = environment_create(actor=as_alice, workspace=lent, kind="cluster", name="lab", gpus=1, workers=0)
    assert settle(row).state == "ready"


def test_one_that_a_member_removed_says_something_else(as_alice: Actor, lent: Workspace) -> None:
    row = ready(as_alice, lent, gpus=2)
    pod = SandboxPod.objects.get(namespace__owner=lent.pk)
    pod_evict(lent.site_id, lent.external_name, str(pod.uid), reason="by hand")
    row = settle(run_now(row))
    assert (row.get_state_display(), KEPT in row.conditions) == ("Stopped", False)
    assert "nothing of it ran any more" in row.transitions.get(new="suspending").reason
