"""Brings the machines of one pool to the spec, a few at a time: deletes surplus and broken ones, creates missing ones, and
upgrades outdated ones one by one.

The report of a failed boot is raised once, and then the machine is recreated; a head that was once ready is never recreated
automatically, since it holds the cluster's state.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from gpuaas.core import clock
from gpuaas.core.errors import Permanent, QuotaRefused
from gpuaas.core.ids import uuid7
from gpuaas.providers import base
from gpuaas.providers.openstack import flavors, inside, names, placing, servers
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters import health
from gpuaas.providers.openstack.clusters import place as places
from gpuaas.providers.openstack.clusters.guest import Guest, user_data
from gpuaas.providers.openstack.clusters.place import Place
from gpuaas.providers.openstack.clusters.plan import control_name, is_meshed, worker_name
from gpuaas.providers.openstack.clusters.settings import BOOT_MINUTES
from gpuaas.providers.openstack.clusters.tunnel import is_tunneled

AT_ONCE = 10  # machines created in one call of a step, so that it returns soon


@dataclass(frozen=True)
class Machine:
    """A desired machine. pool None = of the control plane."""

    name: str
    release: str
    flavor: base.FlavorAmount
    pool: base.NodePool | None = None
    address: str = ""


def wanted_heads(spec: base.ClusterSpec) -> list[Machine]:
    flavor = places.control_flavor(spec)
    return [
        Machine(control_name(spec, each), spec.release, flavor, address=places.control_address(each))
        for each in range(1, spec.control_plane.count + 1)
    ]


def wanted_workers(spec: base.ClusterSpec, pool: base.NodePool) -> list[Machine]:
    numbers = range(1, pool.flavor.count + 1)
    return [Machine(worker_name(spec, pool, each), pool.release, pool.flavor, pool) for each in numbers]


@dataclass(frozen=True)
class Nodes:
    cloud: Cloud
    spec: base.ClusterSpec
    place: Place

    @cached_property
    def _there(self) -> list[Object]:
        """Oldest first."""
        found = servers.of_project(self.cloud, self.place.require()["id"])
        return sorted(found, key=lambda row: (row["created"], row["id"]))

    def bring(self, pool: str, wanted: Sequence[Machine]) -> base.StepOutcome:
        """One reconciliation of a pool."""
        present, going = self._sort_out(pool, {machine.name for machine in wanted})
        again = self._replaced(present)
        for server in present.values():
            self._failure_raise(server, pool)
        broken = [server for server in present.values() if self._is_lost(server)]
        missing = [machine for machine in wanted if machine.name not in present]
        if going or missing:
            limited = self.place.limit(self.spec, self.place.require())
            if not limited.done:
                return limited
        for server in (*going, *broken):
            servers.remove(self.cloud, server)
        if is_meshed(self.spec):
            self._lead(row for row in present.values() if row not in broken)
        if going or broken:
            return base.StepOutcome(
                done=False, detail=f"{len(going) + len(broken)} machines are being deleted"
            )
        if missing:
            return self._make(missing, len(wanted), again)
        return self._settle(present, wanted)

    def _sort_out(self, pool: str, wanted: set[str]) -> tuple[dict[str, Object], list[Object]]:
        """(machines to keep by name, machines to delete): surplus ones, duplicates, and those already being deleted."""
        present: dict[str, Object] = {}
        going = []
        for server in self._there:
            if health.pool_of(server) != pool:
                continue
            if health.is_going(server) or server["name"] not in wanted or server["name"] in present:
                going.append(server)
            else:
                present[server["name"]] = server
        return present, going

    def _replaced(self, present: dict[str, Object]) -> dict[str, dict[str, str]]:
        """Machines that were not placed, since others were faster, are deleted and left out, to be created again if there is room;
        by name: the mark of the next."""
        lost = [server for server in present.values() if placing.is_lost(server)]
        free = placing.with_room(self.cloud, lost, self.place.classes)
        for server in lost:
            if server["id"] in free:
                servers.remove(self.cloud, present.pop(server["name"]))
        return {server["name"]: placing.next_try([server]) for server in lost if server["id"] in free}

    def _lead(self, machines: Iterator[Object]) -> None:
        """Point each machine's address to it; release addresses of machines that are neither desired nor present."""
        addresses = self.place.addresses
        addresses.lead(machines, own=control_name(self.spec, 1))
        addresses.release(
            {*(machine.name for machine in self._wanted()), *(row["name"] for row in self._there)}
        )

    # -- what has gone wrong -------------------------------------------------------------------------------------------

    def _failure_raise(self, server: Object, pool: str) -> None:
        """Raises why Nova could not create it, after deleting it, or once per boot why the boot failed."""
        if server["status"] == "ERROR" and not server.get("OS-SRV-USG:launched_at"):
            servers.remove(self.cloud, server)
            raise health.not_made(server, pool)
        if server["status"] == "ERROR" and self._is_irreplaceable(server):
            raise self._head_broken(server)
        report, boot = health.report_of(server, self.spec.boots), str(server["metadata"].get(health.BOOT))
        failed = report is not None and report.stage is base.Stage.FAILED
        if (
            not (failed or self._is_overdue(server, report))
            or server["metadata"].get(health.FAILED_BOOT) == boot
        ):
            return
        self._note(server, {health.FAILED_BOOT: boot})
        raise health.boot_failed(server, report) if report and failed else self._silent(server, report)

    def _is_lost(self, server: Object) -> bool:
        """Whether to recreate it: it is in ERROR, its boot failed and that was raised, or its address changed."""
        if self._has_moved(server):
            return True
        failed = self._boot_failed(server)
        if failed and self._is_irreplaceable(server):
            return False
        return server["status"] == "ERROR" or bool(failed and health.trouble(server, self.spec.boots))

    def _boot_failed(self, server: Object) -> bool:
        """Whether the failure of its current boot was raised already."""
        marks = server["metadata"]
        return health.FAILED_BOOT in marks and marks[health.FAILED_BOOT] == marks.get(health.BOOT)

    def _has_moved(self, server: Object) -> bool:
        """Whether somebody removed a worker's address, at which others expect it. A head is never recreated for that."""
        expected = server["metadata"].get(health.OUTSIDE)
        if not expected or not health.pool_of(server):
            return False
        found = self._addresses.get(server["name"])
        return found is None or found["floating_ip_address"] != expected

    @cached_property
    def _addresses(self) -> dict[str, Object]:
        return self.place.addresses.by_machine()

    def _is_irreplaceable(self, server: Object) -> bool:
        """A head that was once ready: it holds the cluster's state."""
        report = health.report_of(server, self.spec.boots)
        ready = report is not None and report.stage is base.Stage.READY
        return not health.pool_of(server) and (ready or health.UPGRADED in server["metadata"])

    def _is_overdue(self, server: Object, report: base.NodeReport | None) -> bool:
        if server["status"] not in {"ACTIVE", "BUILD"} or (report and report.stage.is_last):
            return False
        minutes = int(self.spec.settings.get("boot_minutes") or BOOT_MINUTES)
        begun = health.begun_at(server)
        return begun is None or clock.now() - begun > timedelta(minutes=minutes)

    def _silent(self, server: Object, report: base.NodeReport | None) -> Permanent:
        minutes = int(self.spec.settings.get("boot_minutes") or BOOT_MINUTES)
        reached = f"the last stage that it reported is {report.stage}" if report else "it never reported"
        return Permanent(
            f"{server['name']} is not ready after {minutes} minutes: {reached}",
            detail={
                "evidence": [
                    f"{server['name']}: Nova reports {server['status']}; {reached}",
                    *(f"{server['name']}: {words}" for words in health.console_words(self.cloud, server)),
                ],
                "next": f"Check on its console whether it can reach {self.spec.boots.url} and its packages, then retry: it is "
                "recreated. Templates that need more time can set boot_minutes.",
            },
        )

    def _head_broken(self, server: Object) -> Permanent:
        return Permanent(
            f"{server['name']}, the head, is broken at the site",
            detail={
                "evidence": [f"{server['name']}: {server['status']} {health.fault(server)}".strip()],
                "next": f"It holds the cluster's state, so it is not recreated. An operator can try to restart it (openstack "
                f"server reboot --hard {server['id']}); then retry.",
            },
        )

    # -- making and changing -------------------------------------------------------------------------------------------

    def _make(
        self, missing: Sequence[Machine], wanted: int, again: Mapping[str, dict[str, str]]
    ) -> base.StepOutcome:
        if self.spec.is_burst and self.spec.join is None:
            raise Permanent("workers at a burst site need the join token of the cluster's own site")
        project, network = self.place.require(), self.place.network()
        entrance = "" if self.spec.is_burst else str(self.place.address()["floating_ip_address"])
        groups = places.groups(self.spec, of_heads=missing[0].pool is None)
        groups = ["default", *(self.place.group(name) for name in groups)]
        image, flavor = self._image(), self._flavor(missing[0].flavor)
        try:
            with closing(inside.enter(self.cloud, project)) as own:
                for machine in missing[:AT_ONCE]:
                    boot = uuid7()
                    nets = {"uuid": network} | ({"fixed_ip": machine.address} if machine.address else {})
                    outside = self._outside(machine, entrance)
                    body: Object = {
                        "name": machine.name,
                        "flavorRef": flavor,
                        "imageRef": image,
                        "user_data": user_data(self._guest(machine, boot, entrance, outside)),
                        "metadata": {**self._marks(machine, boot, outside), **again.get(machine.name, {})},
                        "tags": list(self.place.tags),
                        "networks": [nets],
                        "security_groups": [{"name": name} for name in groups],
                    }
                    own.post("compute", "/servers", {"server": body})
        except QuotaRefused as error:
            if again:
                return base.StepOutcome(
                    done=False, detail="machines that could not be placed are being deleted"
                )
            raise places.over_quota(error) from error
        return base.StepOutcome(
            done=False, detail=f"{wanted - len(missing)} of {wanted} machines exist; Nova is creating more"
        )

    def _outside(self, machine: Machine, entrance: str) -> str:
        """The machine's own address if machines at other sites must reach it; for the first head the cluster's address."""
        if not is_meshed(self.spec):
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
            heads=self._heads(),
            entrance=entrance,
            network=places.CIDR,
            outside=outside,
            site=self.place.site,
            pool=machine.pool,
            address=machine.address,
        )

    def _heads(self) -> tuple[str, ...]:
        """Slurm's, in the cluster's own network, are reached from other sites too: through the tunnel."""
        if is_tunneled(self.spec) and self.spec.is_burst:
            return (places.control_address(1),)
        return tuple(head.address for head in wanted_heads(self.spec))

    def _token(self, name: str, boot: uuid.UUID) -> str:
        return base.boot_token(self.spec.boots.seed, cluster=self.spec.id, node=name, boot=boot)

    def _marks(self, machine: Machine, boot: uuid.UUID, outside: str) -> dict[str, str]:
        return {
            health.CLUSTER: str(self.spec.id),
            health.KIND: self.spec.kind.value,
            health.POOL: machine.pool.name if machine.pool else "",
            health.RELEASE: machine.release,
            health.BOOT: boot.hex,
            **({health.OUTSIDE: outside} if outside else {}),
        }

    def _settle(self, present: dict[str, Object], wanted: Sequence[Machine]) -> base.StepOutcome:
        """Upgrades through metadata, which machines read each minute: one at a time, while all others are ready."""
        for machine in wanted:
            self._start_if_stopped(present[machine.name])
        waiting = [row for row in present.values() if health.trouble(row, self.spec.boots)]
        for row in waiting:
            if self._boot_failed(row):
                self._boot_again(row, str(row["metadata"][health.RELEASE]))
        if waiting:
            first = f"{waiting[0]['name']}: {health.trouble(waiting[0], self.spec.boots)}"
            detail = f"{len(wanted) - len(waiting)} of {len(wanted)} machines are ready; {first}"
            return base.StepOutcome(done=False, detail=detail)
        behind = [one for one in wanted if present[one.name]["metadata"].get(health.RELEASE) != one.release]
        if behind:
            self._boot_again(present[behind[0].name], behind[0].release)
            left = len(behind) - 1
            return base.StepOutcome(
                done=False, detail=f"{behind[0].name} is being upgraded to {behind[0].release}; {left} left"
            )
        if not wanted:
            return base.StepOutcome(done=True, detail="no workers")
        return base.StepOutcome(done=True, detail=f"{len(wanted)} machines run {wanted[0].release}")

    def _boot_again(self, server: Object, release: str) -> None:
        """Another boot of the same machine, with a new token, in one write."""
        boot = uuid7()
        token = self._token(server["name"], boot)
        self._note(
            server,
            {health.RELEASE: release, health.BOOT: boot.hex, health.TOKEN: token, health.UPGRADED: "yes"},
        )

    def _start_if_stopped(self, server: Object) -> None:
        if server["status"] == "SHUTOFF" and not server.get("OS-EXT-STS:task_state"):
            self.cloud.post("compute", f"/servers/{server['id']}/action", {"os-start": None})

    def _note(self, server: Object, words: dict[str, str]) -> None:
        self.cloud.post("compute", f"/servers/{server['id']}/metadata", {"metadata": words})

    def _image(self) -> str:
        """The newest; a tenant's own of this name is none, though the site's account sees it."""
        name = str(self.spec.settings.get("image") or "")
        found = self.cloud.items("image", "/images", "images", name=name, status="active")
        rows = [row for row in found if self._is_offered(row)]
        if not rows:
            raise Permanent(
                f"the site has no public image {name!r}, which the template's settings name",
                detail={
                    "next": "An operator must upload and publish it, or set another image in the template."
                },
            )
        return str(max(rows, key=lambda row: (row.get("created_at") or "", row["id"]))["id"])

    def _is_offered(self, image: Object) -> bool:
        """By the cloud's administrators, or by the project of the site's account."""
        is_own = image["owner"] == self.cloud.own_project_id
        return image["visibility"] in ({"public", "community"} if is_own else {"public"})

    def _flavor(self, flavor: base.FlavorAmount) -> str:
        name = names.FLAVOR.format(slug=flavor.slug)
        for row in flavors.all_flavors(self.cloud):
            if row["name"] == name:
                return str(row["id"])
        raise Permanent(f"the flavor {name} is not at the site")

    # -- looking -------------------------------------------------------------------------------------------------------

    def head(self) -> Object | None:
        """The first head, to which the cluster's address leads."""
        name = control_name(self.spec, 1)
        return next((row for row in self._there if row["name"] == name and not health.is_going(row)), None)

    def _wanted(self) -> Iterator[Machine]:
        yield from wanted_heads(self.spec)
        for pool in self.spec.pools:
            yield from wanted_workers(self.spec, pool)

    def waiting(self) -> Iterator[str]:
        """What does not match the spec, in words."""
        there = {row["name"]: row for row in self._there}
        for machine in self._wanted():
            reason = (
                health.trouble(there[machine.name], self.spec.boots)
                if machine.name in there
                else "it is missing"
            )
            if reason:
                yield f"{machine.name}: {reason}"
