"""The API server goes away and comes back, on a control plane of the test's own."""

import json

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import Unavailable
from gpuaas.providers.base import SiteChange, UsageKind
from gpuaas.providers.kubeapi import client
from tests.contracts.rigs import pod
from tests.lab.fixtures import LabSite, in_the_end
from tests.providers.kubernetes.conftest import make_room, make_spec, provision

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("own-lab")]


def test_an_outage_is_unavailable_and_then_everything_goes_on(own_lab: Lab) -> None:
    site = LabSite(own_lab.kubeconfig)
    room = make_room(site, make_spec())
    room.tenant.create(room.path("pods"), pod("one", {"nvidia.com/gpu": "1"}))
    room.run_to("one", "Running")
    events = list(room.driver.watch_usage("", seconds=1))
    cursor = next(event.cursor for event in events if event.kind is UsageKind.RELISTED)

    own_lab.stop_program("kube-apiserver")
    driver = site.driver()
    for verb in (
        driver.probe,
        lambda: driver.observe(room.ref),
        lambda: list(driver.watch_usage(cursor, seconds=1)),
    ):
        with pytest.raises(Unavailable):
            verb()

    own_lab.start_program("kube-apiserver")
    provision(driver, room.spec)
    assert [each.name for each in driver.observe(room.ref).consumers] == ["one"]

    # a version from before the restart is unknown to the new server: 410, and a full list by itself
    again = list(driver.watch_usage("1", seconds=1))
    assert again[0].kind is UsageKind.RELIST
    assert "one" in {event.consumer.name for event in again if event.consumer}
    assert again[-1].kind is UsageKind.BOOKMARK


def test_a_cursor_of_changes_that_is_too_old_begins_at_the_present(own_lab: Lab) -> None:
    """A version is too old only for a server that has begun after it."""
    site = LabSite(own_lab.kubeconfig)
    old = list(site.driver().watch_changes("", seconds=2))[-1].cursor
    own_lab.stop_program("kube-apiserver")
    own_lab.start_program("kube-apiserver")
    in_the_end(site.driver().site_repair)
    heard = list(site.driver().watch_changes(old, seconds=3))
    assert heard[0] == SiteChange()
    before, after = json.loads(old), json.loads(heard[-1].cursor)
    assert before.keys() == after.keys()
    assert all(after[kind] != before[kind] for kind in before)


def test_a_server_that_hangs_is_unavailable(own_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READ_SECONDS", 0.5)
    driver = LabSite(own_lab.kubeconfig).driver()
    own_lab.pause_program("kube-apiserver")
    try:
        with pytest.raises(Unavailable):
            driver.probe()
    finally:
        own_lab.resume_program("kube-apiserver")
