"""Suspends and resumes a project: limits are set to zero, and machines are shelved, since a stopped one keeps its devices.

Machines that we shelve are tagged first, so that a crash loses nothing and those shelved by the tenant stay shelved. While
limits are zero Nova refuses an unshelve like a new machine. Even forged tags bring back no more than the limits admit.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from gpuaas.core.errors import Permanent
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

SHELVED, STOPPED = "gpuaas-shelved", "gpuaas-stopped"
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
        found = servers.of_project(self.cloud, project["id"])
        left = [row for row in found if row["status"] != "SHELVED_OFFLOADED"]
        still = [row for row in left if not row["OS-EXT-STS:task_state"]]
        if still:
            with closing(inside.enter(self.cloud, project)) as own:
                for row in still:
                    self._put_away(own, row)
        if left:
            return StepOutcome(done=False, detail=_summary(left, "being shelved"))
        return StepOutcome(done=True, detail=f"{_machines(len(found))} shelved")

    def _put_away(self, own: Cloud, row: Object) -> None:
        """Shelved as the tenant, since the image of a shelved machine belongs to the account that shelves it."""
        path, status = f"/servers/{row['id']}", row["status"]
        if status in SHELVABLE:
            for tag in (SHELVED, *([STOPPED] if status == "SHUTOFF" else [])):
                self.cloud.put("compute", f"{path}/tags/{tag}")
            own.post("compute", f"{path}/action", {"shelve": None})
        elif status == "ERROR" and not row.get("OS-SRV-USG:launched_at"):
            self.cloud.delete("compute", path)  # it never ran, so it holds no data
        elif status in NEARER:
            self.cloud.post("compute", f"{path}/action", dict(NEARER[status]))

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
            own.post("compute", f"{path}/action", {"unshelve": None})
            return False
        if STOPPED in row["tags"]:
            if status == "ACTIVE":
                own.post("compute", f"{path}/action", {"os-stop": None})
                return False
            self.cloud.delete("compute", f"{path}/tags/{STOPPED}")
        if status in SHELVABLE:
            self.cloud.delete("compute", f"{path}/tags/{SHELVED}")
        return True  # a machine in ERROR is left to the tenant and does not block the others


def _summary(rows: list[Object], what: str) -> str:
    shown = ", ".join(row["name"] for row in rows[:SHOWN])
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"{shown}{more} {'is' if len(rows) == 1 else 'are'} {what}"


def _machines(count: int) -> str:
    return f"{count} {'machine' if count == 1 else 'machines'}"
