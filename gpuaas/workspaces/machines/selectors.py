"""Reads of machines. The caller has checked who may see the workspace."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Func, Max, Q, QuerySet, TextField, Value

from gpuaas.catalog.models import Flavor, Node, Site
from gpuaas.catalog.site import kind_of
from gpuaas.core import clock
from gpuaas.core.rows import first_of, one_or_none, searched
from gpuaas.providers.base import Belonging, MachineCapability, MachineImage, MachineVerb
from gpuaas.workspaces.allowances import over_quota
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.states import ALLOWED, ALWAYS, AWAKE, LIVE, MachineState
from gpuaas.workspaces.models import Eviction, Workspace
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import projects_for

SCREENS_AGAIN = timedelta(days=1)
NO_WAY_IN = (
    "It has no address that is reachable from outside: give it a floating IP with your own client, or "
    "connect through a machine that has one."
)

NO_KEY = "It was created without a key: only accounts of its image or of cloud-init can sign in."
NO_USER = "USER is the account of its image; the image does not name it."


@dataclass(frozen=True)
class FlavorRoom:
    """How many machines of a flavor the workspace has bought, how many exist, and how many fit now.

    spare: what is left of everything that was bought together; machines of other flavors take from it, too. hosts:
    for how many the free devices of each host are enough, when the site was last observed; None if it does not report
    its hosts.
    """

    flavor: Flavor
    bought: int
    held: int
    spare: int
    hosts: int | None

    @property
    def left(self) -> int:
        """How many more the purchase allows."""
        return max(min(self.bought - self.held, self.spare), 0)

    @property
    def fits(self) -> int:
        """Of those, how many hosts have room for."""
        return self.left if self.hosts is None else min(self.left, self.hosts)

    @property
    def full(self) -> str:
        """Why none fits, and what to do; "" if one does."""
        if not self.left:
            return (
                f"All {self.bought:,} that the workspace has bought are in use, including stopped and "
                "shelved machines: delete one, or resize the workspace."
            )
        if self.fits:
            return ""
        pool, gpus = self.flavor.pool, self.flavor.gpus
        need = f"{gpus:,} free {pool.gpu_type.name}"
        most = f"; the most on one is {pool.largest_block:,}" if gpus > 1 else ""
        return f"No host at the site has {need} at this moment{most}. Try again when some are released."


def machines_sold(*, site: Site) -> bool:
    """Whether workspaces of the site hold machines; asks the driver's class, not the site."""
    return issubclass(kind_of(site), MachineCapability)


def machines_of(
    *, workspace: Workspace, states: Iterable[MachineState] = LIVE, search: str = ""
) -> QuerySet[Machine]:
    """Newest first; without deleted ones, unless they are asked for."""
    rows = Machine.objects.filter(workspace=workspace, state__in=list(states)).select_related("workspace")
    return rows.filter(name__icontains=search) if search else rows


def machines_seen(*, actor: Actor, search: str) -> QuerySet[Machine]:
    """Of every workspace that the actor may see: by name, by id, ours or the site's, or by an address; newest first."""
    seen = projects_for(actor=actor, permission=Permission.WORKSPACE_VIEW).order_by()
    rows = Machine.objects.filter(workspace__project__in=seen, state__in=list(LIVE))
    known = Q(uid=search) | Q(observed__addresses__contains=[search])
    return searched(rows, search, also=known).select_related("workspace__project")


def machine_get(*, workspace: Workspace, machine_id: uuid.UUID) -> Machine:
    found = first_of(Machine.objects.filter(workspace=workspace, pk=machine_id), "machine")
    found.workspace = workspace
    return found


def machine_look_of(*, workspace: Workspace) -> MachineLook | None:
    """None before the first observation."""
    return one_or_none(MachineLook.objects.filter(workspace=workspace))


def machines_counted(*, workspace: Workspace) -> QuerySet[Machine]:
    """Those that count against the purchase: an order that the site refused does not."""
    rows = Machine.objects.filter(workspace=workspace, state__in=list(LIVE)).order_by()
    return rows.exclude(state=MachineState.FAILED, uid="")


def flavors_left(*, workspace: Workspace) -> list[FlavorRoom]:
    """Of every flavor that the site has confirmed; a machine counts until it is deleted, shelved or not; 3 queries."""
    rows = workspace.flavors.select_related("flavor__pool__gpu_type").filter(confirmed__gt=0)
    items = list(rows.order_by("flavor__slug"))
    held = Counter(machines_counted(workspace=workspace).values_list("flavor_slug", flat=True))
    spare = sum(row.confirmed for row in items) - held.total()
    free = _free_on_hosts(row.flavor.pool_id for row in items)
    return [
        FlavorRoom(row.flavor, row.confirmed, held[row.flavor.slug], spare, _hosts(free, row.flavor))
        for row in items
    ]


def _free_on_hosts(pools: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[int]]:
    free: dict[uuid.UUID, list[int]] = {}
    for node in Node.objects.filter(pool__in=set(pools)):
        if node.pool_id is not None:
            free.setdefault(node.pool_id, []).append(node.unallocated)
    return free


def _hosts(free: Mapping[uuid.UUID, list[int]], flavor: Flavor) -> int | None:
    """All devices of a machine are on one host."""
    blocks = free.get(flavor.pool_id)
    return sum(block // flavor.gpus for block in blocks) if blocks is not None and flavor.gpus else None


def surplus_marks(*, workspace: Workspace) -> dict[uuid.UUID, Eviction]:
    """Its machines that exceed the purchase, or that were put away for that and have not run since; 2 queries.

    An eviction names one stretch of a machine, `<uid>:<its start>`; the newest of each machine counts. One that was
    not carried out counts while the workspace holds too much: after that the machine has released its devices.
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


def screens_offered(look: MachineLook | None) -> bool:
    """False for a day after the site reported that it shows no screens."""
    refused_at = look.no_screens_at if look is not None else None
    return refused_at is None or clock.now() - refused_at > SCREENS_AGAIN


@dataclass(frozen=True)
class Ssh:
    """`line` opens the machine from outside; "" if it cannot be reached, and then `reason` says why."""

    line: str
    reason: str


def ssh_of(machine: Machine, look: MachineLook | None) -> Ssh:
    """By the address that is reachable from outside, as the user of its image."""
    outside = str(machine.observed.get("outside") or "")
    if not outside:
        return Ssh("", NO_WAY_IN)
    shown = machine.observed.get("image")
    users = (image.user for image in images_of(look) if machine.image == image.id or shown == image.name)
    user = next(filter(None, users), "")
    reasons = [] if user else [NO_USER]
    if not (machine.key_name or machine.observed.get("key")):
        reasons.append(NO_KEY)
    return Ssh(f"ssh {user or 'USER'}@{outside}", " ".join(reasons))


def images_of(look: MachineLook | None) -> list[MachineImage]:
    """By name; empty before the first observation."""
    return [MachineImage(**row) for row in look.images] if look is not None else []


def belongings_of(look: MachineLook | None) -> list[Belonging]:
    """What the workspace has beside machines, in the order of kinds."""
    return [Belonging(**row) for row in look.belongings] if look is not None else []


def verbs_now(machine: Machine) -> list[MachineVerb]:
    """What its state and its workspace's allow; the services decide who may do it."""
    awake = machine.workspace.state in AWAKE
    free = [verb for verb in MachineVerb if machine.state in ALLOWED[verb] and (awake or verb in ALWAYS)]
    return [verb for verb in free if verb is MachineVerb.DELETE or (machine.uid and not machine.verb)]
