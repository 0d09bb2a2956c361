"""A node that dies at the real API server: its pods and those that replace them are never counted both, nor after a deletion by force."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.clock import now
from gpuaas.metering.models import Meter, UsageInterval
from gpuaas.metering.services import meter_claim, meter_flush
from gpuaas.providers.base import UsageCapability
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_request
from gpuaas.workspaces.site import driver_of
from tenants.actors import Actor
from tenants.models import Project
from tests.contracts.rigs import workload
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until
from tests.workspaces.stage import run_now
from tests.workspaces.test_new_model import api, lab_site

__all__ = ["api", "lab_site"]  # fixtures
pytestmark = [pytest.mark.lab, pytest.mark.django_db, pytest.mark.xdist_group("own-lab")]
BOUGHT = 2


class Heard:
    """A meter that is turned by hand."""

    def __init__(self, site: Site) -> None:
        self.site, self.driver, self.cursor = site, driver_of(site), ""
        assert isinstance(self.driver, UsageCapability)

    def turn(self) -> int:
        """Reads on, and returns how many GPUs are counted now."""
        assert isinstance(self.driver, UsageCapability)
        events = list(self.driver.watch_usage(self.cursor, seconds=1))
        meter_claim(site_id=self.site.pk, holder="m", now=clock.now(), seconds=60)
        meter_flush(site_id=self.site.pk, holder="m", events=events, now=clock.now(), claim_seconds=60)
        self.cursor = next((event.cursor for event in reversed(events) if event.cursor), self.cursor)
        return sum(row.quantity for row in rows() if row.ended_at is None)


def rows() -> list[UsageInterval]:
    return list(UsageInterval.objects.filter(meter=Meter.GPU_ALLOCATED))


def test_its_pods_and_their_replacements_are_not_counted_both(
    own_lab: Lab, lab_site: Site, api: Api, project: Project, as_alice: Actor
) -> None:
    limits_give(project)
    asked = [(Flavor.objects.get(pool__site=lab_site).slug, BOUGHT)]
    made = workspace_request(actor=as_alice, project=project, name="serve", items=asked)
    until(lambda: run_now(made).state == "ready", "the workspace is ready")
    space = Workspace.objects.get(pk=made.pk).external_name
    heard, pods, serve = Heard(lab_site), f"/api/v1/namespaces/{space}/pods", served(api, space)
    until(lambda: heard.turn() == BOUGHT, "both are counted")
    old = api.items(pods)
    with down(api, "h100-1"):
        api.merge(serve, {"spec": {"template": {"spec": {"nodeSelector": host("h100-2")}}}})
        for each in old:
            api.delete(f"{pods}/{each['metadata']['name']}")
        going = [each["metadata"] for each in api.items(pods) if _is_old(each, old)]
        deadlines = {each["uid"]: each["deletionTimestamp"] for each in going}
        assert len(deadlines) == BOUGHT

        def replaced() -> bool:
            assert heard.turn() <= BOUGHT, "never more than was bought"
            fresh = [each for each in api.items(pods) if not _is_old(each, old)]
            # a ReplicaSet whose pods were refused waits for minutes: asked again, it is at once
            stamp = {"metadata": {"annotations": {"again": now().isoformat()}}}
            if len(fresh) < BOUGHT:
                api.merge(serve, {"spec": {"template": stamp}})
            running = [each for each in fresh if each["status"]["phase"] == "Running"]
            return len(running) == BOUGHT and heard.turn() == BOUGHT

        until(replaced, "the replacements run", seconds=120)
        for each in old:
            api.delete(f"{pods}/{each['metadata']['name']}", gracePeriodSeconds="0")
        until(lambda: not [each for each in api.items(pods) if _is_old(each, old)], "the old ones are gone")
        assert heard.turn() == BOUGHT
    ends = {row.consumer_uid: row.ended_at for row in rows() if row.consumer_uid in deadlines}
    told = {uid: f"{at:%Y-%m-%dT%H:%M:%SZ}" for uid, at in ends.items() if at is not None}
    assert told == deadlines, "the first deadline, not the force"
    assert most_at_once() <= BOUGHT


def served(api: Api, space: str) -> str:
    """A Deployment on the node that will die, whose pods take an hour to stop; returns its path."""
    path, body = workload(space, "Deployment", "serve", {"nvidia.com/gpu": "1"}, replicas=BOUGHT)
    body["spec"]["template"]["metadata"]["annotations"] = {"lab.gpuaas.io/stop": "3600s"}
    pod = {"nodeSelector": host("h100-1"), "terminationGracePeriodSeconds": 10}
    body["spec"]["template"]["spec"] |= pod
    api.create(path, body)
    return f"{path}/serve"


def host(name: str) -> Object:
    return {"kubernetes.io/hostname": name}


@contextmanager
def down(api: Api, node: str) -> Iterator[None]:
    path = f"/api/v1/nodes/{node}"
    api.merge(path, {"metadata": {"annotations": {"lab.gpuaas.io/down": "true"}}})
    try:
        yield
    finally:
        api.merge(path, {"metadata": {"annotations": {"lab.gpuaas.io/down": None}}})


def most_at_once() -> int:
    """GPUs that were counted at one moment."""

    def counted(at: datetime) -> int:
        there = (
            row for row in rows() if row.started_at <= at and (row.ended_at is None or row.ended_at > at)
        )
        return sum(row.quantity for row in there)

    return max(counted(row.started_at) for row in rows())


def _is_old(found: Object, old: list[Object]) -> bool:
    return found["metadata"]["uid"] in {each["metadata"]["uid"] for each in old}
