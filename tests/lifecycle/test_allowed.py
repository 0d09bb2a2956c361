"""What the tables allow is what the state machines can do, and what has failed is told apart by its history."""

from types import SimpleNamespace
from typing import Any

import pytest

from gpuaas.clusters import states as clusters
from gpuaas.clusters.services.rows import CLUSTER
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces import states as workspaces
from gpuaas.workspaces.services.rows import WORKSPACE

LEADS_TO = {
    Verb.SUSPEND: "suspending",
    Verb.RESUME: "resuming",
    Verb.UPGRADE: "upgrading",
    Verb.DELETE: "deleting",
}


@pytest.mark.parametrize(("kind", "resizing"), [(workspaces, "resizing"), (clusters, "scaling")])
def test_whatever_is_allowed_has_an_edge(kind: Any, resizing: str) -> None:
    for verb, target in {**LEADS_TO, Verb.RESIZE: resizing}.items():
        if verb not in kind.ALLOWED:
            continue
        rule = kind.ALLOWED[verb]
        asked = set(rule.states) | ({"failed"} if rule.failed else set())
        leading = {state for state, nexts in kind.MACHINE.edges.items() if target in nexts}
        assert asked <= leading, verb


@pytest.mark.parametrize("kind", [workspaces, clusters])
def test_what_is_going_takes_nothing_more(kind: Any) -> None:
    for rule in kind.ALLOWED.values():
        assert not {"deleting", "deleted"} & set(rule.states)


def failed(**facts: Any) -> Any:
    operations = SimpleNamespace(first=lambda: SimpleNamespace(kind=facts.get("at", "create")))
    return SimpleNamespace(
        state="failed",
        ready_at=facts.get("ready_at"),
        suspended_at=facts.get("suspended_at"),
        operations=operations,
    )


BROKEN: dict[str, Any] = {}
READY = {"ready_at": now()}
ASLEEP = {**READY, "suspended_at": now()}
RUNNING = {Verb.ORDER, Verb.RUN}


@pytest.mark.parametrize(
    ("facts", "allowed"),
    [
        (BROKEN, {Verb.RETRY, Verb.EXTEND, Verb.DELETE, Verb.MANAGE, Verb.COMPARE, Verb.HALT}),
        (READY, set(workspaces.ALLOWED) - {Verb.RESUME, *RUNNING}),
        (ASLEEP, set(workspaces.ALLOWED) - {Verb.RESIZE, *RUNNING}),
    ],
)
def test_a_workspace_that_failed(facts: dict[str, Any], allowed: set[Verb]) -> None:
    assert {verb for verb in workspaces.ALLOWED if WORKSPACE.may(failed(**facts), verb)} == allowed


@pytest.mark.parametrize(
    ("facts", "refused"),
    [
        ({"at": "create"}, {Verb.RESIZE, Verb.UPGRADE, Verb.SUSPEND, Verb.RESUME, Verb.ENTER}),
        ({**READY, "at": "scale"}, {Verb.UPGRADE, Verb.RESUME}),
        ({**READY, "at": "upgrade"}, {Verb.RESIZE, Verb.UPGRADE, Verb.SUSPEND, Verb.RESUME}),
        ({**ASLEEP, "at": "resume"}, {Verb.RESIZE, Verb.UPGRADE}),
    ],
)
def test_a_cluster_that_failed(facts: dict[str, Any], refused: set[Verb]) -> None:
    assert {verb for verb in clusters.ALLOWED if not CLUSTER.may(failed(**facts), verb)} == refused


def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(Conflict, match="it is suspended: resume it first"):
        WORKSPACE.require(failed(**ASLEEP), Verb.RESIZE)
    with pytest.raises(Conflict, match="while the cluster is suspended; resume it first"):
        CLUSTER.require(SimpleNamespace(state="suspended"), Verb.RESIZE)  # type: ignore[arg-type]
