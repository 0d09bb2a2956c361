"""Machines of one pool, brought to what is wanted a few at a time: what is too much or broken goes, what is missing is made, what is
behind is brought to its release one by one.

A machine is ready when Nova has it ACTIVE and it has reported so itself. What a boot that failed has told is raised once, and then it is made
anew; a head that was ready before is never made anew by itself, for it holds what the cluster knows.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from gpuaas.core import clock
from gpuaas.core.errors import NoCapacity, Permanent, QuotaRefused
from gpuaas.core.ids import moment_of, uuid7
from gpuaas.providers.base import (
    STAGE_WORDS,
    ClusterNode,
    ClusterSpec,
    FlavorAmount,
    NodePool,
    NodeReport,
    Stage,
    StepOutcome,
    boot_token,
)
from gpuaas.providers.base.boots import Boots
from gpuaas.providers.openstack import flavors, inside, names, servers
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters import place as places
from gpuaas.providers.openstack.clusters.guest import Guest, user_data
from gpuaas.providers.openstack.clusters.place import Place
from gpuaas.providers.openstack.clusters.plan import control_name, worker_name
from gpuaas.providers.openstack.clusters.settings import BOOT_MINUTES

AT_ONCE = 10  # made in one step's call, so that it returns at once
CLUSTER, POOL, KIND = names.CLUSTERS, "gpuaas-pool", "gpuaas-kind"
BOOT, RELEASE, TOKEN = "gpuaas-boot", "gpuaas-release", "gpuaas-token"
TOLD, AGED = "gpuaas-told", "gpuaas-upgraded"
NO_HOST = ("No valid host", "NoValidHost", "Exceeded maximum number of retries")


@dataclass(frozen=True)
class Machine:
    """One that is wanted. pool None = of the control plane."""

    name: str
    release: str
    flavor: FlavorAmount
    pool: NodePool | None = None
    address: str = ""


def wanted_heads(spec: ClusterSpec) -> list[Machine]:
    flavor = places.control_flavor(spec)
    return [
        Machine(control_name(spec, each), spec.release, flavor, address=places.control_address(each))
        for each in range(1, spec.control_plane.count + 1)
    ]


def wanted_workers(spec: ClusterSpec, pool: NodePool) -> list[Machine]:
    numbers = range(1, pool.flavor.count + 1)
    return [Machine(worker_name(spec, pool, each), pool.release, pool.flavor, pool) for each in numbers]


def pool_of(server: Object) -> str:
    return str(server["metadata"].get(POOL) or "")


def report_of(server: Object, boots: Boots) -> NodeReport | None:
    return boots.told.get(str(server["metadata"].get(BOOT)))


def is_going(server: Object) -> bool:
    return server.get("OS-EXT-STS:task_state") == "deleting" or server["status"] in {
        "DELETED",
        "SOFT_DELETED",
    }


def trouble(server: Object, boots: Boots) -> str:
    """Why it is not ready, in words; "" where it is."""
    if is_going(server):
        return "it is being deleted"
    if server["status"] == "ERROR":
        return servers.reason_in_words(_fault(server)) if _fault(server) else "the site says ERROR"
    if server["status"] == "BUILD":
        return "Nova makes it"
    if server["status"] != "ACTIVE":
        return f"the site says {server['status']}"
    report = report_of(server, boots)
    if report is None:
        return "it is there and has not reported yet"
    if report.stage is Stage.FAILED:
        return f"it could not be set up: {report.message.splitlines()[0] if report.message else 'it did not say why'}"
    return "" if report.stage is Stage.READY else STAGE_WORDS[report.stage]


def node_of(server: Object, boots: Boots) -> ClusterNode:
    reason = trouble(server, boots)
    release = str(server["metadata"].get(RELEASE) or "")
    return ClusterNode(server["name"], pool_of(server), release, ready=not reason, reason=reason)


@dataclass(frozen=True)
class Nodes:
    cloud: Cloud
    spec: ClusterSpec
    place: Place

    @cached_property
    def _there(self) -> list[Object]:
        """Oldest first."""
        found = servers.of_project(self.cloud, self.place.require()["id"])
        return sorted(found, key=lambda row: (row["created"], row["id"]))

    def bring(self, pool: str, wanted: Sequence[Machine]) -> StepOutcome:
        """One look, and what follows from it."""
        kept, going = self._sort_out(pool, {machine.name for machine in wanted})
        for server in kept.values():
            self._tell(server, pool)
        broken = [server for server in kept.values() if self._is_lost(server)]
        missing = [machine for machine in wanted if machine.name not in kept]
        if going or missing:
            limited = self.place.limit(self.spec, self.place.require())
            if not limited.done:
                return limited
        for server in (*going, *broken):
            servers.remove(self.cloud, server)
        if going or broken:
            return StepOutcome(done=False, detail=f"{len(going) + len(broken)} machines are going")
        if missing:
            return self._make(missing, len(wanted))
        return self._settle(kept, wanted)

    def _sort_out(self, pool: str, wanted: set[str]) -> tuple[dict[str, Object], list[Object]]:
        """(one of each name that stays, what goes): too many, twins, and what is on its way already."""
        kept: dict[str, Object] = {}
        going = []
        for server in self._there:
            if pool_of(server) != pool:
                continue
            if is_going(server) or server["name"] not in wanted or server["name"] in kept:
                going.append(server)
            else:
                kept[server["name"]] = server
        return kept, going

    # -- what has gone wrong -------------------------------------------------------------------------------------------

    def _tell(self, server: Object, pool: str) -> None:
        """Raises what went wrong with it: of what Nova could not make now, once of a boot that failed."""
        if server["status"] == "ERROR" and not server.get("OS-SRV-USG:launched_at"):
            servers.remove(self.cloud, server)
            raise _not_made(server, pool)
        if server["status"] == "ERROR" and self._is_dear(server):
            raise self._head_broken(server)
        report, boot = report_of(server, self.spec.boots), str(server["metadata"].get(BOOT))
        failed = report is not None and report.stage is Stage.FAILED
        if not (failed or self._is_overdue(server, report)) or server["metadata"].get(TOLD) == boot:
            return
        self._note(server, {TOLD: boot})
        raise _boot_failed(server, report) if report and failed else self._silent(server, report)

    def _is_lost(self, server: Object) -> bool:
        """To be made anew: the site has lost it, or its boot has failed and that was told."""
        told = server["metadata"].get(TOLD) == server["metadata"].get(BOOT) and TOLD in server["metadata"]
        if told and self._is_dear(server):
            return False
        return server["status"] == "ERROR" or bool(told and trouble(server, self.spec.boots))

    def _is_dear(self, server: Object) -> bool:
        """A head that was ready once: it holds what the cluster knows."""
        report = report_of(server, self.spec.boots)
        ready = report is not None and report.stage is Stage.READY
        return not pool_of(server) and (ready or AGED in server["metadata"])

    def _is_overdue(self, server: Object, report: NodeReport | None) -> bool:
        if server["status"] not in {"ACTIVE", "BUILD"} or (report and report.stage.is_last):
            return False
        minutes = int(self.spec.settings.get("boot_minutes") or BOOT_MINUTES)
        begun = _begun_at(server)
        return begun is None or clock.now() - begun > timedelta(minutes=minutes)

    def _silent(self, server: Object, report: NodeReport | None) -> Permanent:
        minutes = int(self.spec.settings.get("boot_minutes") or BOOT_MINUTES)
        reached = f"the last stage that it reported is {report.stage}" if report else "it never reported"
        return Permanent(
            f"{server['name']} is not ready after {minutes} minutes: {reached}",
            detail={
                "evidence": [f"{server['name']}: Nova says {server['status']}; {reached}"],
                "next": f"See on its console whether it reaches {self.spec.boots.url} and its packages, then retry: it is made "
                "anew. Templates that need longer say so in boot_minutes.",
            },
        )

    def _head_broken(self, server: Object) -> Permanent:
        return Permanent(
            f"{server['name']}, the head, is broken at the site",
            detail={
                "evidence": [f"{server['name']}: {server['status']} {_fault(server)}".strip()],
                "next": f"It holds what the cluster knows, so it is not made anew. An operator can try to start it again (openstack "
                f"server reboot --hard {server['id']}); then retry.",
            },
        )

    # -- making and changing -------------------------------------------------------------------------------------------

    def _make(self, missing: Sequence[Machine], wanted: int) -> StepOutcome:
        project, network, group = self.place.require(), self.place.network(), self.place.group()
        outside = str(self.place.address()["floating_ip_address"])
        image, flavor = self._image(), self._flavor(missing[0].flavor)
        own = inside.enter(self.cloud, project)
        try:
            for machine in missing[:AT_ONCE]:
                boot = uuid7()
                nets = {"uuid": network} | ({"fixed_ip": machine.address} if machine.address else {})
                groups = ["default", *([] if machine.pool else [group])]
                body: Object = {
                    "name": machine.name,
                    "flavorRef": flavor,
                    "imageRef": image,
                    "user_data": user_data(self._guest(machine, boot, outside)),
                    "metadata": self._marks(machine, boot),
                    "tags": list(self.place.tags),
                    "networks": [nets],
                    "security_groups": [{"name": name} for name in groups],
                }
                own.post("compute", "/servers", {"server": body})
        except QuotaRefused as error:
            raise places.over_quota(error) from error
        finally:
            own.close()
        return StepOutcome(
            done=False, detail=f"{wanted - len(missing)} of {wanted} machines are there; Nova makes more"
        )

    def _guest(self, machine: Machine, boot: uuid.UUID, outside: str) -> Guest:
        return Guest(
            spec=self.spec,
            name=machine.name,
            release=machine.release,
            boot=boot.hex,
            token=self._token(machine.name, boot),
            heads=tuple(head.address for head in wanted_heads(self.spec)),
            outside=outside,
            network=places.CIDR,
            pool=machine.pool,
            address=machine.address,
        )

    def _token(self, name: str, boot: uuid.UUID) -> str:
        return boot_token(self.spec.boots.seed, cluster=self.spec.id, node=name, boot=boot)

    def _marks(self, machine: Machine, boot: uuid.UUID) -> dict[str, str]:
        return {
            CLUSTER: str(self.spec.id),
            KIND: self.spec.kind.value,
            POOL: machine.pool.name if machine.pool else "",
            RELEASE: machine.release,
            BOOT: boot.hex,
        }

    def _settle(self, kept: dict[str, Object], wanted: Sequence[Machine]) -> StepOutcome:
        """Another release comes by the metadata, which the machine reads each minute: one at a time, while all others work."""
        for machine in wanted:
            self._wake(kept[machine.name])
        waiting = [row for row in kept.values() if trouble(row, self.spec.boots)]
        for row in waiting:
            if row["metadata"].get(TOLD) == row["metadata"].get(BOOT) and TOLD in row["metadata"]:
                self._begin_anew(row, str(row["metadata"][RELEASE]))
        if waiting:
            first = f"{waiting[0]['name']}: {trouble(waiting[0], self.spec.boots)}"
            detail = f"{len(wanted) - len(waiting)} of {len(wanted)} machines are ready; {first}"
            return StepOutcome(done=False, detail=detail)
        behind = [one for one in wanted if kept[one.name]["metadata"].get(RELEASE) != one.release]
        if behind:
            self._begin_anew(kept[behind[0].name], behind[0].release)
            left = len(behind) - 1
            return StepOutcome(
                done=False, detail=f"{behind[0].name} is brought to {behind[0].release}; {left} are left"
            )
        if not wanted:
            return StepOutcome(done=True, detail="no workers")
        return StepOutcome(done=True, detail=f"{len(wanted)} machines run {wanted[0].release}")

    def _begin_anew(self, server: Object, release: str) -> None:
        """Another boot of the same machine, with a token of its own, in one write."""
        boot = uuid7()
        token = self._token(server["name"], boot)
        self._note(server, {RELEASE: release, BOOT: boot.hex, TOKEN: token, AGED: "yes"})

    def _wake(self, server: Object) -> None:
        """Somebody has stopped it at the site."""
        if server["status"] == "SHUTOFF" and not server.get("OS-EXT-STS:task_state"):
            self.cloud.post("compute", f"/servers/{server['id']}/action", {"os-start": None})

    def _note(self, server: Object, words: dict[str, str]) -> None:
        self.cloud.post("compute", f"/servers/{server['id']}/metadata", {"metadata": words})

    def _image(self) -> str:
        name = str(self.spec.settings.get("image") or "")
        rows = self.cloud.items("image", "/images", "images", name=name, status="active")
        if not rows:
            raise Permanent(
                f"the site has no image {name!r}, which the template's settings name",
                detail={"next": "An operator has to upload it, or to give the template another image."},
            )
        return str(max(rows, key=lambda row: (row.get("created_at") or "", row["id"]))["id"])

    def _flavor(self, flavor: FlavorAmount) -> str:
        name = names.FLAVOR.format(slug=flavor.slug)
        for row in flavors.all_flavors(self.cloud):
            if row["name"] == name:
                return str(row["id"])
        raise Permanent(f"the flavor {name} is not at the site")

    # -- looking -------------------------------------------------------------------------------------------------------

    def head(self) -> Object | None:
        """The first one, to which the address leads."""
        name = control_name(self.spec, 1)
        return next((row for row in self._there if row["name"] == name and not is_going(row)), None)

    def waiting(self) -> Iterator[str]:
        """What is not as wanted, in words."""
        there = {row["name"]: row for row in self._there}
        every = [wanted_heads(self.spec), *(wanted_workers(self.spec, pool) for pool in self.spec.pools)]
        for machine in (one for part in every for one in part):
            reason = (
                trouble(there[machine.name], self.spec.boots) if machine.name in there else "it is missing"
            )
            if reason:
                yield f"{machine.name}: {reason}"


def _begun_at(server: Object) -> datetime | None:
    """None where somebody has taken our mark away."""
    try:
        return moment_of(uuid.UUID(str(server["metadata"].get(BOOT))))
    except ValueError:
        return None


def _fault(server: Object) -> str:
    return str((server.get("fault") or {}).get("message") or "")


def _not_made(server: Object, pool: str) -> NoCapacity | Permanent:
    """With Nova's own words. The machine goes, for one without a host keeps its claims; the next try asks Nova anew."""
    said = _fault(server)
    detail = {
        "evidence": [f"{server['name']}: {said or 'Nova does not say why'}"],
        "next": "Retry when others have given GPUs back, or scale the pool to fewer workers.",
    }
    if any(words in said for words in NO_HOST):
        what = f"a worker of the pool {pool}" if pool else "the head"
        return NoCapacity(f"no host of the site has room for {what}", detail=detail)
    detail["next"] = (
        "Retry; if it fails again, an operator has to see on the host why it cannot start machines."
    )
    return Permanent(
        f"the site could not make {server['name']}: {servers.reason_in_words(said)}", detail=detail
    )


def _boot_failed(server: Object, report: NodeReport) -> Permanent:
    lines = [line for line in report.message.splitlines() if line.strip()]
    cause = lines[0] if lines else "it did not say why"
    after = f" after the stage {report.passed}" if report.passed else ""
    return Permanent(
        f"{server['name']} could not be set up{after}: {cause}",
        detail={
            "evidence": lines[-20:] or [f"{server['name']}: {cause}"],
            "next": "Retry: the machine is made anew. If it fails alike again, an operator has to look at the template's image, packages "
            "and addresses.",
        },
    )
