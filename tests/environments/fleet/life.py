"""What happens to the two hundred: they run, some are stopped, started, restarted, deleted, pushed out or ended, and all end."""

from functools import partial

from gpuaas.environments.models import Environment
from gpuaas.environments.services import (
    environment_delete,
    environment_restart,
    environment_start,
    environment_stop,
)
from gpuaas.workspaces.services import workspace_delete, workspace_resume, workspace_suspend
from tenants.actors import Actor
from tests.environments.fleet.crew import Metering
from tests.environments.fleet.stage import (
    ALL,
    ALPHA,
    BETA,
    BORROWED,
    DELTA,
    GAMMA,
    LATER,
    OMEGA,
    PSI,
    Fleet,
    Wanted,
    look_again,
    settled,
    workspaces_settled,
)
from tests.environments.fleet.witness import Witness
from tests.environments.metered import Model
from tests.lab.fixtures import until
from tests.workspaces.test_new_model import tenant

HERE = "127.0.0.1"
# tokens in and out that each endpoint serves, by its number in `delta`
SERVED = {0: [(900_001, 41_237)], 2: [(123_456, 7), (1_999_999, 500_000)]}
LATE = range(18, 36)  # of `alpha`, when there is no room left for all that is lent
Models = dict[int, tuple[Model, int]]


def all_run(fleet: Fleet, models: Models) -> None:
    """The last orders of buyers push borrowers out."""
    for wanted in ALL:
        fleet.order(wanted, range(LATE.start if wanted is ALPHA else wanted.environments))
    settled(list(Environment.objects.all()), "ready")
    for number, (model, _) in models.items():
        _answers(fleet, fleet.of(DELTA, number)[0])
        for tokens_in, tokens_out in SERVED[number]:
            model.serve(tokens_in, tokens_out, reason="stop")
    fleet.order(ALPHA, LATE)
    settled(fleet.of(ALPHA), "ready")
    look_again(fleet.of(BORROWED))
    stopped = Environment.objects.filter(workspace=fleet.workspaces["borrowed"], state="suspended")
    until(stopped.exists, "borrowers are pushed out")


def _answers(fleet: Fleet, row: Environment) -> None:
    """Where a make-believe kubelet has no network, the pod is said to be on this machine, as its server is."""
    pod = f"/api/v1/namespaces/{row.workspace.external_name}/pods/{row.external_name}"
    fleet.api.merge(f"{pod}/status", {"status": {"podIP": HERE, "podIPs": [{"ip": HERE}]}})


def lives(fleet: Fleet, meter: Metering, olga: Actor) -> None:
    meter.kill()
    _many_change(fleet)
    fleet.reprice(LATER, olga)
    meter.begin()
    beta = fleet.workspaces["beta"]
    workspace_suspend(actor=fleet.actors["beta"], workspace=beta)
    workspaces_settled([beta], "suspended")
    settled(fleet.of(BETA), "suspended")
    _ended_by_a_member(fleet, OMEGA, 12, 15)
    workspace_resume(actor=fleet.actors["beta"], workspace=beta)
    workspace_delete(actor=fleet.actors["gamma"], workspace=fleet.workspaces["gamma"])
    workspaces_settled([beta], "ready")
    _start(fleet, BETA, *range(8))
    _start(fleet, ALPHA, *range(1, 6))
    workspaces_settled([fleet.workspaces["gamma"]], "deleted")
    settled(fleet.of(GAMMA), "deleted")


def _many_change(fleet: Fleet) -> None:
    """While nothing counts; the endpoints are stopped with the others."""
    stopped = [*fleet.of(ALPHA, *range(1, 12)), *fleet.of(PSI, *range(10)), *fleet.of(DELTA, *SERVED)]
    restarted, deleted = fleet.of(OMEGA, *range(10)), fleet.of(DELTA, *range(10, 18))
    for row in stopped:
        environment_stop(actor=fleet.actors[row.workspace.name], environment=row)
    for row in restarted:
        environment_restart(actor=fleet.actors["omega"], environment=row)
    for row in deleted:
        environment_delete(actor=fleet.actors["delta"], environment=row)
    settled(stopped, "suspended")
    settled(restarted, "ready")
    settled(deleted, "deleted")


def _start(fleet: Fleet, wanted: Wanted, *numbers: int) -> None:
    rows = fleet.of(wanted, *numbers)
    for row in rows:
        environment_start(actor=fleet.actors[wanted.name], environment=row)
    settled(rows, "ready")


def _ended_by_a_member(fleet: Fleet, wanted: Wanted, *numbers: int) -> None:
    """By `kubectl delete`: the portal starts them again."""
    rows, workspace = fleet.of(wanted, *numbers), fleet.workspaces[wanted.name]
    api = tenant(fleet.actors[wanted.name], workspace)
    for row in rows:
        path = f"/api/v1/namespaces/{workspace.external_name}/pods/{row.external_name}"
        uid = str(api.get(path)["metadata"]["uid"])
        api.delete(path)
        until(partial(_is_anew, fleet, row, path, uid), "it runs again")


def _is_anew(fleet: Fleet, row: Environment, path: str, uid: str) -> bool:
    found = fleet.api.find(path)
    if found is not None and found["metadata"]["uid"] != uid and found["status"].get("phase") == "Running":
        return True
    look_again([row])
    return False


def all_end(fleet: Fleet, witness: Witness) -> None:
    rows = list(fleet.workspaces.values())
    for name, row in fleet.workspaces.items():
        if name != "gamma":
            workspace_delete(actor=fleet.actors[name], workspace=row)
    workspaces_settled(rows, "deleted")
    spaces = [row.external_name for row in rows]
    until(lambda: not witness.left(spaces), "the API server has told of every end")
