"""A visit to the site for the machines of one workspace: launch orders, request actions, then observe.

Under a claim, so one worker at a time. After a kill anywhere, the next visit reaches the same end: a machine is found
by the mark of its order, and an action is repeated until its acceptance is recorded.
"""

import random
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db.models import QuerySet

from gpuaas.core import claims, clock
from gpuaas.core.claims import ClaimLost, claimed, in_words, retry_at
from gpuaas.core.crypto import decrypt_json
from gpuaas.core.errors import PASSING, GpuaasError, NotFound, Permanent
from gpuaas.providers import base
from gpuaas.workspaces.machines import record
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.rows import screens_refused
from gpuaas.workspaces.machines.selectors import screens_offered
from gpuaas.workspaces.machines.states import LIVE, MOVING, MachineState
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.spec import ref_of, spec_of
from gpuaas.workspaces.states import STAYING, WorkspaceState

REST, SOON, SOON_MOST = timedelta(seconds=60), timedelta(seconds=1), timedelta(seconds=15)
SLOW_EVERY = timedelta(minutes=5)


def visit(workspace_id: uuid.UUID) -> bool:
    """False if another worker has the claim, or if the site could not be observed; then it is due again."""
    return claimed(MachineLook, workspace_id, _work, failed=_failed)


def _work(look: MachineLook) -> bool:
    workspace = Workspace.objects.select_related("project__organization", "site").get(pk=look.pk)
    driver = driver_of(workspace.site)
    if workspace.state == WorkspaceState.DELETED or not isinstance(driver, base.MachineCapability):
        record.closed(look, workspace)
        return True
    trouble = _Visit(look, workspace, driver).run()
    record.left(look, workspace, trouble, due_at=_due(look, workspace, trouble))
    return trouble is None


def _failed(look: MachineLook, error: GpuaasError) -> None:
    record.left(look, look.workspace, error, due_at=retry_at(look, error))


class _Visit:
    def __init__(self, look: MachineLook, workspace: Workspace, driver: base.MachineCapability) -> None:
        self.look, self.workspace, self.driver = look, workspace, driver
        self.ref: base.WorkspaceRef = ref_of(workspace)
        self.trouble: GpuaasError | None = None

    def run(self) -> GpuaasError | None:
        """Returns what prevented it from doing everything; the site is observed in any case."""
        ran = set(self._rows(state=MachineState.RUNNING).values_list("uid", flat=True))
        if self.workspace.state in STAYING:
            for machine in self._rows(state=MachineState.ORDERED):
                self._each(machine, self._launch)
            # one at a time, so that they are not in each other's way again
            for machine in self._rows(state=MachineState.BUILDING, uid="")[:1]:
                self._each(machine, self._launch)
        for machine in self._rows(told_at__isnull=True, verb_id__isnull=False).exclude(uid=""):
            self._each(machine, self._act)
        claims.extend(self.look)
        seen = self.driver.machines(self.ref)
        record.observed(self.look, self.workspace, seen)
        self._screens(
            [each.uid for each in seen if each.status is base.MachineStatus.RUNNING and each.uid not in ran]
        )
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
        """One machine that the site refuses does not delay the others."""
        claims.extend(self.look)
        try:
            do(machine)
        except ClaimLost:
            raise
        except PASSING as error:
            self.trouble = error
        except Exception as error:  # noqa: BLE001  whatever it is, it is written where people look
            record.refused(self.look, machine, in_words(error, machine=str(machine.pk)))

    def _launch(self, machine: Machine) -> None:
        flavors = {flavor.slug: flavor for flavor in spec_of(self.workspace).flavors}
        if machine.flavor_slug not in flavors:
            raise Permanent(f"the workspace no longer has {machine.flavor_slug}")
        order = base.MachineOrder(
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
        verb = base.MachineVerb(machine.verb)
        action = machine.verb_id or uuid.uuid4()
        try:
            self.driver.act(self.ref, machine.uid, verb, action=action, image=machine.verb_image)
        except NotFound:
            return  # the look that follows finds that it is gone
        record.action_sent(self.look, machine)

    def _screens(self, news: list[str]) -> None:
        """Asks with a machine that has begun to run, so that no screen is offered where there are none."""
        if not news or not screens_offered(self.look):
            return
        try:
            self.driver.console(self.ref, news[0])
        except base.NoScreens:
            screens_refused(self.workspace.site_id)
        except GpuaasError:
            return  # whoever wants to see it finds out

    def _slow(self) -> None:
        """What changes seldom: images, and what the workspace has beside machines."""
        claims.extend(self.look)
        images = () if self._ending else self.driver.images(self.ref)
        record.slow(self.look, self.workspace, images, self.driver.belongings(self.ref))


def _due(look: MachineLook, workspace: Workspace, trouble: GpuaasError | None) -> datetime:
    """Soon while something changes, with growing delay; otherwise after a minute, or when somebody asks."""
    moment = clock.now()
    if trouble is not None:
        return retry_at(look, trouble)
    moving = Machine.objects.filter(workspace=workspace, state__in=list(MOVING))
    since = _latest(moving.values_list("verb_at", "created_at"))
    if since is None and workspace.state not in {WorkspaceState.DELETING, WorkspaceState.SUSPENDING}:
        return moment + REST
    waited = moment - since if since is not None else timedelta()
    if moving.filter(state=MachineState.BUILDING, uid="").exists():
        return moment + SOON * random.uniform(0.2, 1.5)  # noqa: S311  so that those of other workspaces come at other times
    return moment + min(max(SOON, waited / 10), SOON_MOST)


def _latest(pairs: Iterable[tuple[datetime | None, datetime]]) -> datetime | None:
    return max((requested or made for requested, made in pairs), default=None)
