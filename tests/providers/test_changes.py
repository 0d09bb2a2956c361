"""What every driver declares of the changes that it can do; no site is called."""

import uuid

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.lifecycle.visits import step_perform
from gpuaas.providers.base import Change, Connection, Provisioner, StepOutcome, StepSpec
from gpuaas.providers.registry import (
    cluster_driver_class,
    cluster_driver_names,
    driver_class,
    driver_names,
)
from gpuaas.workspaces.reconcile.timeline import CONSUMERS_STEPS

SLEEP = {Change.SUSPEND, Change.RESUME}


@pytest.mark.parametrize("name", driver_names())
def test_a_workspace_is_made_resized_and_deleted_everywhere(name: str) -> None:
    changes = driver_class(name).changes
    assert set(changes) - SLEEP == {Change.CREATE, Change.RESIZE, Change.DELETE}
    assert set(changes) >= SLEEP or not SLEEP & set(changes), "who can put to sleep can wake"
    for steps in changes.values():
        keys = [step.key for step in steps]
        assert keys
        assert len(keys) == len(set(keys))
        assert not any(step.site or step.makes for step in steps)


@pytest.mark.parametrize("name", cluster_driver_names())
def test_a_cluster_is_made_scaled_and_deleted_everywhere(name: str) -> None:
    changes = set(cluster_driver_class(name).changes)
    assert {Change.CREATE, Change.SCALE, Change.DELETE} <= changes
    assert Change.RESIZE not in changes
    assert changes >= SLEEP or not SLEEP & changes


@pytest.mark.parametrize("name", driver_names())
@pytest.mark.parametrize("change", [Change.SUSPEND, Change.DELETE])
def test_one_step_ends_what_is_charged(name: str, change: Change) -> None:
    """The step after which nothing of the workspace runs, whatever else it waits for until all of it is gone. Where there is one
    step alone, that is it."""
    steps = driver_class(name).changes.get(change, ())
    assert len(CONSUMERS_STEPS.intersection(step.key for step in steps)) == (1 if len(steps) > 1 else 0)


class Once(Provisioner[str]):
    """Makes things and can do nothing else."""

    name, changes = "once", frozenset({Change.CREATE})

    def steps(self, change: Change, spec: str) -> tuple[StepSpec, ...]:
        return (StepSpec("make", f"{change} {spec}"),)

    def perform(self, change: Change, spec: str, step: str) -> StepOutcome:
        return StepOutcome(done=True, detail=f"{change} {spec}: {step}")


def test_a_change_that_a_driver_cannot_do_is_not_asked_of_it() -> None:
    driver = Once(Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={}))
    assert step_perform(driver, Change.CREATE, "it", "make").detail == "create it: make"
    with pytest.raises(Permanent, match="does not support suspend"):
        step_perform(driver, Change.SUSPEND, "it", "make")
