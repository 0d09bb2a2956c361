"""Personal credentials at a simulated site."""

from dataclasses import replace
from datetime import timedelta

import pytest
import time_machine
import yaml

from gpuaas.core.errors import Forbidden, NotFound, QuotaRefused, Unauthorized
from gpuaas.providers.base import Change, Member, WorkspaceRef, WorkspaceSpec
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.pods import pod_create, pod_delete, token_role
from tests.providers.sandbox.conftest import ALICE, BOB, Provision

HOUR = timedelta(hours=1)


def token_for(driver: SandboxDriver, ref: WorkspaceRef, member: Member) -> str:
    document = yaml.safe_load(driver.issue_access(ref, member, lifetime=HOUR).document)
    assert document["contexts"][0]["context"]["namespace"] == ref.external_name
    token: str = document["users"][0]["user"]["token"]
    return token


def test_token_works_until_it_expires(driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef) -> None:
    site = driver.connection.site_id
    with time_machine.travel("2027-11-21T10:00:00Z", tick=False) as clock:
        token = token_for(driver, ref, ALICE)
        assert token_role(site, ready.external_name, token) == "admin"
        pod_create(site, ready.external_name, "one", 2, token=token)
        with pytest.raises(QuotaRefused):
            pod_create(site, ready.external_name, "two", 1, token=token)
        pod_delete(site, ready.external_name, "one", token=token)
        clock.shift(HOUR)
        with pytest.raises(Unauthorized):
            token_role(site, ready.external_name, token)


def test_removed_member_is_cut_and_not_revived(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef, provision: Provision
) -> None:
    token = token_for(driver, ref, ALICE)
    provision(replace(ready, members=(BOB,)))
    with pytest.raises(Unauthorized):
        token_role(driver.connection.site_id, ready.external_name, token)
    with pytest.raises(NotFound):
        driver.issue_access(ref, ALICE, lifetime=HOUR)
    provision(ready)
    with pytest.raises(Unauthorized):
        token_role(driver.connection.site_id, ready.external_name, token)


def test_viewer_looks_and_does_not_touch(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    with pytest.raises(Forbidden):
        pod_create(
            driver.connection.site_id, ready.external_name, "one", 1, token=token_for(driver, ref, BOB)
        )


def test_access_ends_first_on_release(driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef) -> None:
    token = token_for(driver, ref, ALICE)
    driver.perform(Change.DELETE, ready, "access")
    with pytest.raises(Unauthorized):
        pod_create(driver.connection.site_id, ready.external_name, "one", 1, token=token)


def test_token_of_one_namespace_opens_no_other(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    with pytest.raises(Forbidden):
        token_role(driver.connection.site_id, "gpu-other", token_for(driver, ref, ALICE))


def test_kubeconfig_is_not_printed_by_accident(
    driver: SandboxDriver, ready: WorkspaceSpec, ref: WorkspaceRef
) -> None:
    assert "token" not in repr(driver.issue_access(ref, ALICE, lifetime=HOUR))
