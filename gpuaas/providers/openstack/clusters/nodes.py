"""Machines of one pool, brought to what is wanted a few at a time: what is too much or broken goes, what is missing is made, what is
behind is brought to its release one by one.

What a boot that failed has told is raised once, and then it is made anew; a head that was ready before is never made anew by itself, for
it holds what the cluster knows.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from gpuaas.core import clock
from gpuaas.core.errors import Permanent, QuotaRefused
from gpuaas.core.ids import uuid7
from gpuaas.providers.base import (
    ClusterSpec,
    FlavorAmount,
    NodePool,
    NodeReport,
    Stage,
    StepOutcome,
    boot_token,
)
from gpuaas.providers.openstack import flavors, inside, names, servers
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters import place as places
from gpuaas.providers.openstack.clusters.guest import Guest, user_data
from gpuaas.providers.openstack.clusters.health import (
    AGED,
    BOOT,
    CLUSTER,
    KIND,
    OUTSIDE,
    POOL,
    RELEASE,
    TOKEN,
    TOLD,
    begun_at,
    boot_failed,
    fault,
    is_going,
    not_made,
    pool_of,
    report_of,
    trouble,
)
from gpuaas.providers.openstack.clusters.place import Place
from gpuaas.providers.openstack.clusters.plan import control_name, worker_name
from gpuaas.providers.openstack.clusters.settings import BOOT_MINUTES

AT_ONCE = 10  # made in one step's call, so that it returns at once


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
        if self.spec.spans:
            self._lead(row for row in kept.values() if row not in broken)
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

    def _lead(self, machines: Iterator[Object]) -> None:
        """Each machine's address leads to it; those of machines that are neither wanted nor there are given back."""
        addresses = self.place.addresses
        addresses.lead(machines, own=control_name(self.spec, 1))
        addresses.release(
            {*(machine.name for machine in self._wanted()), *(row["name"] for row in self._there)}
        )

    # -- what has gone wrong -------------------------------------------------------------------------------------------

    def _tell(self, server: Object, pool: str) -> None:
        """Raises what went wrong with it: of what Nova could not make now, once of a boot that failed."""
        if server["status"] == "ERROR" and not server.get("OS-SRV-USG:launched_at"):
            servers.remove(self.cloud, server)
            raise not_made(server, pool)
        if server["status"] == "ERROR" and self._is_dear(server):
            raise self._head_broken(server)
        report, boot = report_of(server, self.spec.boots), str(server["metadata"].get(BOOT))
        failed = report is not None and report.stage is Stage.FAILED
        if not (failed or self._is_overdue(server, report)) or server["metadata"].get(TOLD) == boot:
            return
        self._note(server, {TOLD: boot})
        raise boot_failed(server, report) if report and failed else self._silent(server, report)

    def _is_lost(self, server: Object) -> bool:
        """To be made anew: the site has lost it, or its boot has failed and that was told, or its address is another by now."""
        if self._has_moved(server):
            return True
        told = server["metadata"].get(TOLD) == server["metadata"].get(BOOT) and TOLD in server["metadata"]
        if told and self._is_dear(server):
            return False
        return server["status"] == "ERROR" or bool(told and trouble(server, self.spec.boots))

    def _has_moved(self, server: Object) -> bool:
        """A worker whose address somebody has taken away: the others look for it there. A head is never made anew for that."""
        told = server["metadata"].get(OUTSIDE)
        if not told or not pool_of(server):
            return False
        found = self._addresses.get(server["name"])
        return found is None or found["floating_ip_address"] != told

    @cached_property
    def _addresses(self) -> dict[str, Object]:
        return self.place.addresses.by_machine()

    def _is_dear(self, server: Object) -> bool:
        """A head that was ready once: it holds what the cluster knows."""
        report = report_of(server, self.spec.boots)
        ready = report is not None and report.stage is Stage.READY
        return not pool_of(server) and (ready or AGED in server["metadata"])

    def _is_overdue(self, server: Object, report: NodeReport | None) -> bool:
        if server["status"] not in {"ACTIVE", "BUILD"} or (report and report.stage.is_last):
            return False
        minutes = int(self.spec.settings.get("boot_minutes") or BOOT_MINUTES)
        begun = begun_at(server)
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
                "evidence": [f"{server['name']}: {server['status']} {fault(server)}".strip()],
                "next": f"It holds what the cluster knows, so it is not made anew. An operator can try to start it again (openstack "
                f"server reboot --hard {server['id']}); then retry.",
            },
        )

    # -- making and changing -------------------------------------------------------------------------------------------

    def _make(self, missing: Sequence[Machine], wanted: int) -> StepOutcome:
        if self.spec.is_burst and self.spec.join is None:
            raise Permanent(
                "workers at a burst site are made with what the cluster's own site gives them to join by"
            )
        project, network = self.place.require(), self.place.network()
        entrance = "" if self.spec.is_burst else str(self.place.address()["floating_ip_address"])
        groups = places.groups(self.spec, of_heads=missing[0].pool is None)
        groups = ["default", *(self.place.group(name) for name in groups)]
        image, flavor = self._image(), self._flavor(missing[0].flavor)
        own = inside.enter(self.cloud, project)
        try:
            for machine in missing[:AT_ONCE]:
                boot = uuid7()
                nets = {"uuid": network} | ({"fixed_ip": machine.address} if machine.address else {})
                outside = self._outside(machine, entrance)
                body: Object = {
                    "name": machine.name,
                    "flavorRef": flavor,
                    "imageRef": image,
                    "user_data": user_data(self._guest(machine, boot, entrance, outside)),
                    "metadata": self._marks(machine, boot, outside),
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

    def _outside(self, machine: Machine, entrance: str) -> str:
        """The machine's own address, where machines at other sites must reach it: of the first head it is the cluster's."""
        if not self.spec.spans:
            return ""
        if machine.name == control_name(self.spec, 1):
            return entrance
        return str(self.place.addresses.ensure(machine.name)["floating_ip_address"])

    def _guest(self, machine: Machine, boot: uuid.UUID, entrance: str, outside: str) -> Guest:
        return Guest(
            spec=self.spec,
            name=machine.name,
            release=machine.release,
            boot=boot.hex,
            token=self._token(machine.name, boot),
            heads=tuple(head.address for head in wanted_heads(self.spec)),
            entrance=entrance,
            network=places.CIDR,
            outside=outside,
            site=self.place.site,
            pool=machine.pool,
            address=machine.address,
        )

    def _token(self, name: str, boot: uuid.UUID) -> str:
        return boot_token(self.spec.boots.seed, cluster=self.spec.id, node=name, boot=boot)

    def _marks(self, machine: Machine, boot: uuid.UUID, outside: str) -> dict[str, str]:
        return {
            CLUSTER: str(self.spec.id),
            KIND: self.spec.kind.value,
            POOL: machine.pool.name if machine.pool else "",
            RELEASE: machine.release,
            BOOT: boot.hex,
            **({OUTSIDE: outside} if outside else {}),
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

    def _wanted(self) -> Iterator[Machine]:
        yield from wanted_heads(self.spec)
        for pool in self.spec.pools:
            yield from wanted_workers(self.spec, pool)

    def waiting(self) -> Iterator[str]:
        """What is not as wanted, in words."""
        there = {row["name"]: row for row in self._there}
        for machine in self._wanted():
            reason = (
                trouble(there[machine.name], self.spec.boots) if machine.name in there else "it is missing"
            )
            if reason:
                yield f"{machine.name}: {reason}"
