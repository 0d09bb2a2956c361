"""Suspends and resumes a project: limits are set to zero, and machines are shelved, since a stopped one keeps its devices.

Machines that we shelve are tagged first, so that a crash loses nothing and those shelved by the tenant stay shelved. While
limits are zero Nova refuses an unshelve like a new machine. Even forged tags bring back no more than the limits admit.

Nothing that a tenant does keeps a machine running: it is unlocked, and locked by the portal where the tenant keeps it busy; tags
are set if there is room for them; what cannot be shelved as the tenant (a quota of images) is shelved as the portal.
"""

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from gpuaas.core.errors import GpuaasError, Permanent, Unavailable
from gpuaas.providers.base import StepOutcome, StepSpec, WorkspaceSpec
from gpuaas.providers.openstack import inside, projects, servers
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.ensure import STEPS as ENSURE_STEPS
from gpuaas.providers.openstack.ensure import Ensure

SUSPEND_STEPS = (
    StepSpec("limits", "Set the limits to zero"),
    StepSpec("confirm", "Confirm that the site has the limits"),
    StepSpec("machines", "Shelve the machines"),
    StepSpec("devices", "Wait until no machine holds a device"),
)
RESUME_STEPS = (*ENSURE_STEPS, StepSpec("machines", "Unshelve the machines"))

SHELVED, STOPPED, BY_PORTAL = "gpuaas-shelved", "gpuaas-stopped", "gpuaas-shelved-by-portal"
LOCK = "gpuaas: it is being suspended"  # the reason by which our lock is told from a tenant's
SHELVABLE = frozenset({"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"})
PUT_AWAY = frozenset({"SHELVED", "SHELVED_OFFLOADED"})
# actions that bring a machine to a shelvable state, or release its devices at once
NEARER: Mapping[str, Object] = {
    "SHELVED": {"shelveOffload": None},
    "VERIFY_RESIZE": {"confirmResize": None},
    "RESCUE": {"unrescue": None},
    "SOFT_DELETED": {"forceDelete": None},
    "ERROR": {"os-resetState": {"state": "active"}},
}
SHOWN = 3


@dataclass(frozen=True)
class Suspend:
    cloud: Cloud
    spec: WorkspaceSpec
    ensure: Ensure

    def run(self, step: str) -> StepOutcome:
        """A project that does not exist counts as suspended."""
        if step not in {each.key for each in SUSPEND_STEPS}:
            raise Permanent(f"the OpenStack driver has no step {step!r}")
        project = projects.own_project(
            self.cloud, self.spec.external_name, self.spec.id, domain=self.ensure.domain
        )
        if project is None:
            return StepOutcome(done=True, detail="nothing of it is at the site")
        own: Mapping[str, Callable[[Object], StepOutcome]] = {
            "machines": self._machines,
            "devices": self._devices,
        }
        return own[step](project) if step in own else self.ensure.run(step)

    def _machines(self, project: Object) -> StepOutcome:
        """Each machine by itself: one that refuses does not keep the others running."""
        found = servers.of_project(self.cloud, project["id"])
        left = [row for row in found if row["status"] != "SHELVED_OFFLOADED" or _is_locked_by_us(row)]
        refused: list[GpuaasError] = []
        if left:
            with closing(inside.enter(self.cloud, project)) as own:
                for row in left:
                    try:
                        self._put_away(own, row)
                    except GpuaasError as error:
                        refused.append(error)
        if left:
            more = f"; refused: {refused[0].message}" if refused else ""
            return StepOutcome(done=False, detail=_summary(left, "being shelved") + more)
        return StepOutcome(done=True, detail=f"{_machines(len(found))} shelved")

    def _put_away(self, own: Cloud, row: Object) -> None:
        path, status = f"/servers/{row['id']}", row["status"]
        if status == "SHELVED_OFFLOADED":
            self._act(path, {"unlock": None})
        elif row["OS-EXT-STS:task_state"]:
            if not _is_locked_by_us(row):
                self._act(
                    path, {"lock": {"locked_reason": LOCK}}
                )  # what keeps it busy is not asked for again
        elif status in SHELVABLE:
            self._shelve(own, row, path)
        elif status == "ERROR" and not row.get("OS-SRV-USG:launched_at"):
            self.cloud.delete("compute", path)  # it never ran, so it holds no data
        elif status in NEARER:
            self._act(path, dict(NEARER[status]))

    def _shelve(self, own: Cloud, row: Object, path: str) -> None:
        """As the tenant, since the image of a shelved machine belongs to the account that shelves it; if that is refused, as
        the portal, which then brings it back, too."""
        for tag in (SHELVED, *([STOPPED] if row["status"] == "SHUTOFF" else [])):
            self._tag(path, tag)
        if not _is_locked_by_us(row):
            try:
                if row.get("locked"):
                    self._act(path, {"unlock": None})
                own.post("compute", f"{path}/action", {"shelve": None})
            except GpuaasError as error:
                self._act(path, {"lock": {"locked_reason": LOCK}})
                if isinstance(error, Unavailable):  # busy, or not answering: as the portal next time
                    raise
            else:
                return
        self._tag(path, BY_PORTAL)
        try:
            self._act(path, {"shelve": None})
        except GpuaasError:
            if row["status"] == "ACTIVE":
                self._act(path, {"os-stop": None})  # it holds its devices, but runs no more
            raise

    def _act(self, path: str, action: Object) -> None:
        self.cloud.post("compute", f"{path}/action", action)

    def _tag(self, path: str, tag: str) -> None:
        """A tenant may have used up a machine's tags; without ours it is not brought back by itself."""
        with suppress(Permanent):
            self.cloud.put("compute", f"{path}/tags/{tag}")

    def _devices(self, project: Object) -> StepOutcome:
        """Checked in Placement, which decides whether others can use a device."""
        usages = self.cloud.get("placement", "/usages", project_id=project["id"])["usages"]
        held = {
            name: amount
            for part in usages.values()
            for name, amount in part.items()
            if amount and name != "consumer_count"
        }
        if held:
            words = ", ".join(f"{amount} × {name}" for name, amount in sorted(held.items()))
            return StepOutcome(done=False, detail=f"still held: {words}")
        return StepOutcome(done=True, detail="no machine holds a device")


@dataclass(frozen=True)
class Resume:
    cloud: Cloud
    spec: WorkspaceSpec
    ensure: Ensure

    def run(self, step: str) -> StepOutcome:
        return self._machines() if step == "machines" else self.ensure.run(step)

    def _machines(self) -> StepOutcome:
        confirmed = self.ensure.run("confirm")
        project = projects.own_project(
            self.cloud, self.spec.external_name, self.spec.id, domain=self.ensure.domain
        )
        if not confirmed.done or project is None:
            return confirmed
        found = servers.of_project(self.cloud, project["id"])
        ours = [row for row in found if SHELVED in row["tags"]]
        still = [row for row in ours if not row["OS-EXT-STS:task_state"]]
        if still:
            with closing(inside.enter(self.cloud, project)) as own:
                waiting = [row for row in still if not self._bring_back(own, row)]
            ours = [row for row in ours if row not in still or row in waiting]
        if ours:
            return StepOutcome(done=False, detail=_summary(ours, "being unshelved"))
        return StepOutcome(done=True, detail="all machines are unshelved")

    def _bring_back(self, own: Cloud, row: Object) -> bool:
        """Whether it is in its former state. The tag is removed last."""
        path, status = f"/servers/{row['id']}", row["status"]
        if status in PUT_AWAY:
            account = self.cloud if BY_PORTAL in row["tags"] else own
            account.post("compute", f"{path}/action", {"unshelve": None})
            return False
        if STOPPED in row["tags"]:
            if status == "ACTIVE":
                own.post("compute", f"{path}/action", {"os-stop": None})
                return False
            self.cloud.delete("compute", f"{path}/tags/{STOPPED}")
        if status in SHELVABLE:
            if BY_PORTAL in row["tags"]:
                self.cloud.delete("compute", f"{path}/tags/{BY_PORTAL}")
            self.cloud.delete("compute", f"{path}/tags/{SHELVED}")
        return True  # a machine in ERROR is left to the tenant and does not block the others


def _is_locked_by_us(row: Object) -> bool:
    return bool(row.get("locked")) and row.get("locked_reason") == LOCK


def _summary(rows: list[Object], what: str) -> str:
    shown = ", ".join(row["name"] for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"{shown}{more} {'is' if len(rows) == 1 else 'are'} {what}"


def _machines(count: int) -> str:
    return f"{count} {'machine' if count == 1 else 'machines'}"
