"""Reads of machines. The caller has checked who may see the workspace."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import F, Func, Max, Q, QuerySet, TextField, Value

from gpuaas.catalog.models import Flavor, Node, Site
from gpuaas.catalog.site import kind_of
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Belonging, MachineCapability, MachineImage, MachineVerb
from gpuaas.workspaces.allowances import over_quota
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.states import ALLOWED, ALWAYS, AWAKE, LIVE, MachineState
from gpuaas.workspaces.models import Eviction, Workspace


@dataclass(frozen=True)
class FlavorRoom:
    """How many machines of a flavor the workspace has bought, how many there are, and so how many fit now.

    spare: what is left of all that was bought together; machines of other flavors take of it too. hosts: for how many the
    free devices of each host are enough, by the site's last look; None where it has not told of its hosts.
    """

    flavor: Flavor
    bought: int
    held: int
    spare: int
    hosts: int | None

    @property
    def left(self) -> int:
        """What was bought allows so many more."""
        return max(min(self.bought - self.held, self.spare), 0)

    @property
    def fits(self) -> int:
        """Of those, as many as there is room for on hosts."""
        return self.left if self.hosts is None else min(self.left, self.hosts)

    @property
    def full(self) -> str:
        """Why none fits, and what to do; "" where one does."""
        if not self.left:
            return (
                f"All {self.bought:,} that the workspace has bought are taken, stopped and shelved machines counted: "
                "delete one, or resize the workspace."
            )
        if self.fits:
            return ""
        pool, gpus = self.flavor.pool, self.flavor.gpus
        need = f"{gpus:,} free {pool.gpu_type.name}"
        most = f"; the most on one is {pool.largest_block:,}" if gpus > 1 else ""
        return f"No host at the site has {need} at this moment{most}. Try again when some are given back."


def machines_sold(*, site: Site) -> bool:
    """Whether workspaces of the site hold machines; asks the driver's kind, not the site."""
    return issubclass(kind_of(site), MachineCapability)


def machines_of(
    *, workspace: Workspace, states: Iterable[MachineState] = LIVE, search: str = ""
) -> QuerySet[Machine]:
    """Newest first; without those that are deleted, unless they are asked for."""
    rows = Machine.objects.filter(workspace=workspace, state__in=list(states)).select_related("workspace")
    return rows.filter(name__icontains=search) if search else rows


def machine_get(*, workspace: Workspace, machine_id: uuid.UUID) -> Machine:
    found = Machine.objects.filter(workspace=workspace, pk=machine_id).first()
    if found is None:
        raise NotFound("there is no such machine")
    found.workspace = workspace
    return found


def machine_look_of(*, workspace: Workspace) -> MachineLook | None:
    """None where nobody has looked yet."""
    return MachineLook.objects.filter(workspace=workspace).first()


def machines_counted(*, workspace: Workspace) -> QuerySet[Machine]:
    """Those that take of what was bought: an order that the site refused takes nothing."""
    rows = Machine.objects.filter(workspace=workspace, state__in=list(LIVE)).order_by()
    return rows.exclude(state=MachineState.FAILED, uid="")


def flavors_left(*, workspace: Workspace) -> list[FlavorRoom]:
    """Of every flavor that the site has confirmed; a machine counts until it is deleted, shelved or not; 3 queries."""
    rows = workspace.flavors.select_related("flavor__pool__gpu_type").filter(confirmed__gt=0)
    found = list(rows.order_by("flavor__slug"))
    held = Counter(machines_counted(workspace=workspace).values_list("flavor_slug", flat=True))
    spare = sum(row.confirmed for row in found) - held.total()
    free = _free_on_hosts(row.flavor.pool_id for row in found)
    return [
        FlavorRoom(row.flavor, row.confirmed, held[row.flavor.slug], spare, _hosts(free, row.flavor))
        for row in found
    ]


def _free_on_hosts(pools: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[int]]:
    found: dict[uuid.UUID, list[int]] = {}
    for node in Node.objects.filter(pool__in=set(pools)):
        if node.pool_id is not None:
            found.setdefault(node.pool_id, []).append(node.free)
    return found


def _hosts(free: Mapping[uuid.UUID, list[int]], flavor: Flavor) -> int | None:
    """A machine has all its devices on one host."""
    blocks = free.get(flavor.pool_id)
    return sum(block // flavor.gpus for block in blocks) if blocks is not None and flavor.gpus else None


def surplus_marks(*, workspace: Workspace) -> dict[uuid.UUID, Eviction]:
    """Machines of it that are more than was bought, or were put away for that and have not run since; 2 queries.

    An eviction names one stretch of a machine, `<uid>:<what began it>`; the newest of each machine counts. One that was not
    done counts while the workspace holds too much: after that the machine has given the devices back by itself.
    """
    machine = Func(F("consumer_uid"), Value(":"), Value(1), function="split_part", output_field=TextField())
    live = Machine.objects.filter(workspace=workspace, state__in=list(LIVE)).exclude(uid="")
    newest = (
        Eviction.objects.filter(workspace=workspace)
        .annotate(machine=machine)
        .filter(machine__in=live.values("uid"))
        .order_by("machine", "-pk")
        .distinct("machine")
    )
    found = {row.consumer_uid.partition(":")[0]: row for row in newest}
    if not found:
        return {}
    over = over_quota(workspace)
    ran = Max("transitions__at", filter=Q(transitions__new=MachineState.RUNNING))
    rows = live.filter(uid__in=found).order_by().annotate(ran_at=ran).values_list("pk", "uid", "ran_at")
    marks = {pk: (found[uid], ran_at) for pk, uid, ran_at in rows}
    return {
        pk: row
        for pk, (row, ran_at) in marks.items()
        if (over if row.removed_at is None else ran_at is None or ran_at <= row.removed_at)
    }


def images_of(look: MachineLook | None) -> list[MachineImage]:
    """By name; none where nobody has looked yet."""
    return [MachineImage(**row) for row in look.images] if look is not None else []


def belongings_of(look: MachineLook | None) -> list[Belonging]:
    """What the workspace has beside machines, in the order of kinds."""
    return [Belonging(**row) for row in look.belongings] if look is not None else []


def verbs_now(machine: Machine) -> list[MachineVerb]:
    """What its state and its workspace's allow; the services decide who may."""
    awake = machine.workspace.state in AWAKE
    free = [verb for verb in MachineVerb if machine.state in ALLOWED[verb] and (awake or verb in ALWAYS)]
    return [verb for verb in free if verb is MachineVerb.DELETE or not machine.verb]
