"""What the frame has to know about environments; and who may change one."""

from gpuaas.environments.models import Environment, EnvironmentOperation, EnvironmentTransition
from gpuaas.environments.spec import ENVIRONMENTS
from gpuaas.environments.states import ALLOWED, CHANGING, MACHINE, EnvironmentState
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.workspaces.machines.services import run_require
from tenants.actors import Actor

MAY = "use environments"


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
