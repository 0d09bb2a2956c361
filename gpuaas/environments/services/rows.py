"""What the frame has to know about environments; and who may change one."""

from gpuaas.environments.models import Environment, EnvironmentOperation, EnvironmentTransition
from gpuaas.environments.spec import ENVIRONMENTS
from gpuaas.environments.states import ALLOWED, CHANGING, MACHINE, EnvironmentState
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.workspaces.machines.services import run_require
from tenants.actors import Actor

MAY = "use environments"
HOLDER = "holder of a key"  # as whom somebody acts who shows one
CROWDED = "Room"  # the condition of what a key has started in vain: the site has no room, as members' own pods take it
END_ONE = "If pods in the workspace have taken its room, end one of them."


def permit(actor: Actor, row: Environment) -> None:
    """The same rule as at the site. An outsider gets NotFound."""
    run_require(actor, row.workspace, MAY)


ENVIRONMENT: Kind[Environment] = Kind(
    "environment",
    Environment.objects,
    task="environments.reconcile",
    allowed=ALLOWED,
    machine=MACHINE,
    history=EnvironmentTransition,
    operations=EnvironmentOperation.objects,
    permit=permit,
    overtaken=frozenset({EnvironmentState.STARTING}),
    end=EndWords("it is stopped", "the environment with its home"),
    changing=CHANGING,
    steps=ENVIRONMENTS.steps_of,
    cured={"failure": ""},
    reads=(
        "project__organization",
        "site",
        "workspace__project__organization",
        "workspace__site",
        "made_of__kind",
        "created_by",
    ),
    wake="start it first",
)
