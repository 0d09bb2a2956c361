"""An environment that borrows its GPUs stays stopped once somebody who bought them needs them, and says why."""

from collections.abc import Iterator

import pytest
import time_machine

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.environments.services import environment_start
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.pods import pod_delete, pod_evict
from gpuaas.workspaces.lending import KEPT
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import AuditEntry, Project
from tests.environments.stage import homes, pods, ready, run_now, settle
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


def test_one_that_a_member_removed_says_something_else(as_alice: Actor, lent: Workspace) -> None:
    row = ready(as_alice, lent, gpus=2)
    pod = SandboxPod.objects.get(namespace__owner=lent.pk)
    pod_evict(lent.site_id, lent.external_name, str(pod.uid), reason="by hand")
    row = settle(run_now(row))
    assert (row.get_state_display(), KEPT in row.conditions) == ("Stopped", False)
    assert "nothing of it ran any more" in row.transitions.get(new="suspending").reason
