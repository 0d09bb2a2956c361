"""Reads of machines. The caller has checked who may see the workspace."""

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.site import driver_of
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Belonging, MachineCapability, MachineImage, MachineVerb
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.states import ALLOWED, LIVE, MachineState
from gpuaas.workspaces.models import Workspace


@dataclass(frozen=True)
class FlavorRoom:
    """How many machines of a flavor the workspace has bought, how many there are, and so how many fit now.

    spare: what is left of all that was bought together; machines of other flavors take of it too.
    """

    flavor: Flavor
    bought: int
    held: int
    spare: int

    @property
    def left(self) -> int:
        return max(min(self.bought - self.held, self.spare), 0)


def machines_sold(*, site: Site) -> bool:
    """Whether workspaces of the site hold machines; asks the driver's kind, not the site."""
    return isinstance(driver_of(site), MachineCapability)


def machines_of(
    *, workspace: Workspace, states: Iterable[MachineState] = LIVE, search: str = ""
) -> QuerySet[Machine]:
    """Newest first; without those that are deleted, unless they are asked for."""
    rows = Machine.objects.filter(workspace=workspace, state__in=list(states))
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
    """Of every flavor that the site has confirmed; a machine counts until it is deleted, shelved or not; 2 queries."""
    rows = workspace.flavors.select_related("flavor__pool__gpu_type").filter(confirmed__gt=0)
    found = list(rows.order_by("flavor__slug"))
    held = Counter(machines_counted(workspace=workspace).values_list("flavor_slug", flat=True))
    spare = sum(row.confirmed for row in found) - held.total()
    return [FlavorRoom(row.flavor, row.confirmed, held[row.flavor.slug], spare) for row in found]


def images_of(look: MachineLook | None) -> list[MachineImage]:
    """By name; none where nobody has looked yet."""
    return [MachineImage(**row) for row in look.images] if look is not None else []


def belongings_of(look: MachineLook | None) -> list[Belonging]:
    """What the workspace has beside machines, in the order of kinds."""
    return [Belonging(**row) for row in look.belongings] if look is not None else []


def verbs_now(machine: Machine) -> list[MachineVerb]:
    """What its state allows; the services decide who may."""
    free = [verb for verb in MachineVerb if machine.state in ALLOWED[verb]]
    return [verb for verb in free if verb is MachineVerb.DELETE or not machine.verb]
