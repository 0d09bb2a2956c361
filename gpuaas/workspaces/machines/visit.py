"""A visit to the site for the machines of one workspace: launch what is ordered, ask for what is wished, then look.

Under the lease of the workspace's look, so one worker at a time. Killed anywhere, the next visit comes to the same end: a
machine is found again by the mark of its order, a wish is repeated until the site's taking of it is written down.
"""

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import structlog
from django.db.models import QuerySet

from gpuaas.core import clock, leases
from gpuaas.core.backoff import delay
from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import GpuaasError, NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import MachineCapability, MachineOrder, MachineVerb, WorkspaceRef
from gpuaas.workspaces.machines import record
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.states import LIVE, MOVING, MachineState
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.site import driver_of, outside_transaction
from gpuaas.workspaces.spec import ref_of, spec_of
from gpuaas.workspaces.states import WorkspaceState

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
PASSING = (Unavailable, Unauthorized)
REST, SOON, SOON_MOST = timedelta(seconds=60), timedelta(seconds=1), timedelta(seconds=15)
SLOW_EVERY = timedelta(minutes=5)
ENDED = frozenset({WorkspaceState.DELETING, WorkspaceState.DELETED})


def visit(workspace_id: uuid.UUID) -> bool:
    """False where somebody else is there, or the site could not be looked at; it is due again then."""
    outside_transaction()
    look = leases.claim(MachineLook, workspace_id, now=clock.now(), seconds=LEASE_SECONDS)
    if look is None:
        return False
    workspace = Workspace.objects.select_related("project__organization", "site").get(pk=workspace_id)
    driver = driver_of(workspace.site)
    if workspace.state == WorkspaceState.DELETED or not isinstance(driver, MachineCapability):
        record.closed(look, workspace)
        return True
    try:
        trouble = _Visit(look, workspace, driver).run()
    except record.LeaseLost:
        return False
    except GpuaasError as error:
        trouble = error
    except Exception as error:
        log.exception("machines_failed", workspace=str(workspace_id))
        trouble = Permanent(f"the portal met an unexpected error ({type(error).__name__})")
    record.left(look, workspace, trouble, due_at=_due(look, workspace, trouble))
    return trouble is None


class _Visit:
    def __init__(self, look: MachineLook, workspace: Workspace, driver: MachineCapability) -> None:
        self.look, self.workspace, self.driver = look, workspace, driver
        self.ref: WorkspaceRef = ref_of(workspace)
        self.trouble: GpuaasError | None = None

    def run(self) -> GpuaasError | None:
        """What kept it from doing everything; whatever that is, the site is looked at."""
        if self.workspace.state not in ENDED:
            for machine in self._rows(state=MachineState.ORDERED):
                self._each(machine, self._launch)
        for machine in self._rows(told_at__isnull=True, verb_id__isnull=False).exclude(uid=""):
            self._each(machine, self._act)
        self._extend()
        seen = self.driver.machines(self.ref)
        record.observed(self.look, self.workspace, seen)
        if self.look.slow_at is None or self.look.slow_at <= clock.now() - SLOW_EVERY or self._ending:
            self._slow()
        return self.trouble

    @property
    def _ending(self) -> bool:
        return self.workspace.state == WorkspaceState.DELETING

    def _rows(self, **wanted: object) -> QuerySet[Machine]:
        rows = Machine.objects.filter(workspace=self.workspace, state__in=list(LIVE), **wanted)
        return rows.order_by("pk")

    def _each(self, machine: Machine, do: Callable[[Machine], None]) -> None:
        """One that the site refuses does not keep the others waiting."""
        self._extend()
        try:
            do(machine)
        except record.LeaseLost:
            raise
        except PASSING as error:
            self.trouble = error
        except GpuaasError as error:
            record.refused(self.look, machine, error)
        except Exception as error:
            log.exception("machine_failed", machine=str(machine.pk))
            words = (
                f"the portal met an unexpected error ({type(error).__name__}); operators find it in the log"
            )
            record.refused(self.look, machine, Permanent(words))

    def _launch(self, machine: Machine) -> None:
        flavors = {flavor.slug: flavor for flavor in spec_of(self.workspace).flavors}
        if machine.flavor_slug not in flavors:
            raise Permanent(f"the workspace has no {machine.flavor_slug} any more")
        order = MachineOrder(
            id=machine.pk,
            name=machine.name,
            flavor=flavors[machine.flavor_slug],
            image=machine.image,
            public_key=machine.public_key,
            cloud_init=str(decrypt_json(machine.cloud_init).get("text", "")),
            volume_gib=machine.volume_gib,
        )
        record.launched(self.look, machine, self.driver.launch(self.ref, order))

    def _act(self, machine: Machine) -> None:
        verb = MachineVerb(machine.verb)
        action = machine.verb_id or uuid.uuid4()
        try:
            self.driver.act(self.ref, machine.uid, verb, action=action, image=machine.verb_image)
        except NotFound:
            return  # the look that follows finds that it is gone
        record.told(self.look, machine)

    def _slow(self) -> None:
        """What changes seldom: images, and what the workspace has beside machines."""
        self._extend()
        images = () if self._ending else self.driver.images(self.ref)
        record.slow(self.look, self.workspace, images, self.driver.belongings(self.ref))

    def _extend(self) -> None:
        until = clock.now() + timedelta(seconds=LEASE_SECONDS)
        if not leases.apply(self.look, claim_until=until):
            raise record.LeaseLost


def _due(look: MachineLook, workspace: Workspace, trouble: GpuaasError | None) -> datetime:
    """Soon while something moves, the later the longer it does; else after a minute, or when somebody wakes it."""
    moment = clock.now()
    if trouble is not None:
        wait = max(delay(look.attempts + 1), getattr(trouble, "retry_after", 0))
        return moment + timedelta(seconds=min(wait, 60))
    moving = Machine.objects.filter(workspace=workspace, state__in=list(MOVING))
    since = _latest(moving.values_list("verb_at", "created_at"))
    if since is None and workspace.state not in {WorkspaceState.DELETING, WorkspaceState.SUSPENDING}:
        return moment + REST
    waited = moment - since if since is not None else timedelta()
    return moment + min(max(SOON, waited / 10), SOON_MOST)


def _latest(pairs: Iterable[tuple[datetime | None, datetime]]) -> datetime | None:
    return max((wished or made for wished, made in pairs), default=None)
