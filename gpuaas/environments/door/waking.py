"""What starts by a key: an environment that was stopped for want of use, and no other.

Who holds a key may know nothing else of its workspace: the answers have no names, numbers or reasons of a site.
"""

from datetime import datetime, timedelta
from typing import Final

from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError, QuotaRefused
from gpuaas.environments.door.pages import MOMENT, Asleep
from gpuaas.environments.door.passes import Admission, holder_of
from gpuaas.environments.models import DoorKey, Environment
from gpuaas.environments.selectors import environments_loaded, was_idle
from gpuaas.environments.services.changes import environment_wake
from gpuaas.environments.services.rows import CROWDED, ENVIRONMENT
from gpuaas.environments.states import ON_ITS_WAY, EnvironmentState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.services.rows import WORKSPACE
from gpuaas.workspaces.spec import is_asleep

S = EnvironmentState
LEAVING: Final = frozenset({S.DELETING, S.DELETED})
# a model takes minutes; who asks again early costs little
STARTING: Final = Asleep("starting", "Starting", "The environment is starting, which may take minutes.", 10)
UNUSED: Final = "The environment was stopped since nobody used it"
NO_ROOM: Final = Asleep("no_room", "Not running", f"{UNUSED}, and its workspace has no room for it now.", 60)
STOPPED: Final = Asleep(
    "stopped", "Not running", "The environment was stopped. Somebody of its workspace has to start it."
)
FAILED: Final = Asleep(
    "failed",
    "Not running",
    "The environment could not be started. Somebody of its workspace has to look at it.",
)
NOT_NOW: Final = Asleep(
    "workspace_not_running", "Not running", "The workspace of the environment does not run."
)
GONE: Final = Asleep("deleted", "Not running", "The environment is being deleted.")


def woken(found: Admission) -> Asleep:
    """Why it does not run, now that somebody has come with a key: that it starts, if nothing is against it."""
    row = environments_loaded().get(pk=found.environment_id)
    if row.state == S.STOPPED and was_idle(row) and found.key_id and not _is_crowded(row):
        key = DoorKey.objects.select_related("environment__workspace").get(pk=found.key_id)
        try:
            row = environment_wake(holder=holder_of(key.prefix), key=key)
        except QuotaRefused:
            return NO_ROOM
        except GpuaasError:
            row = environments_loaded().get(pk=row.pk)
            if row.state == S.STOPPED and _is_closed(row):
                return NOT_NOW
    return _why(row)


def _is_closed(row: Environment) -> bool:
    """Whether its workspace starts nothing now."""
    return bool(WORKSPACE.why_not(row.workspace, Verb.RUN) or ENVIRONMENT.why_not_now(row, Verb.RESUME))


def _is_crowded(row: Environment) -> bool:
    """Whether the site had no room for it so lately that it is not asked again."""
    told = row.conditions.get(CROWDED)
    since = datetime.fromisoformat(told["since"]) if told else None
    return since is not None and clock.now() - since < timedelta(seconds=NO_ROOM.seconds)


def _why(row: Environment) -> Asleep:
    if was_idle(row) and _is_crowded(row):
        return NO_ROOM
    if row.state in ON_ITS_WAY or (row.state == S.STOPPING and was_idle(row)):
        return STARTING
    if row.state in LEAVING:
        return GONE
    if row.state == S.FAILED:
        return FAILED
    if row.state == S.READY:
        return NOT_NOW if is_asleep(row.workspace) else MOMENT
    return STOPPED
