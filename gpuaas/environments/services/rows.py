"""What the frame has to know about environments; and who may change one."""

from gpuaas.core.errors import Conflict
from gpuaas.environments.models import Environment, EnvironmentOperation, EnvironmentTransition
from gpuaas.environments.spec import environments_at, spec_of
from gpuaas.environments.states import ALLOWED, CHANGING, MACHINE, EnvironmentState
from gpuaas.lifecycle.kind import EndWords, Kind
from gpuaas.providers.base import Change, StepSpec
from gpuaas.workspaces.machines.services import run_require
from tenants.actors import Actor

MAY = "use environments"


def permit(actor: Actor, row: Environment) -> None:
    """The same rule as at the site. An outsider gets NotFound."""
    run_require(actor, row.workspace, MAY)


def steps_of(row: Environment, change: Change, _was: str = "") -> tuple[StepSpec, ...]:
    """Raises Conflict where the site offers no environments."""
    found = environments_at(row.site)
    if found is None:
        raise Conflict(f"the site {row.site.slug} offers no environments")
    return found.steps(change, spec_of(row))


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
    steps=steps_of,
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
