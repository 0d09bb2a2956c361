"""A project's limits as meters: allocated, held and not allocated, left."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Aggregate, FloatField, Sum
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from frontend.components import Meter
from gpuaas.catalog.models import GpuType
from gpuaas.metering.models import Meter as Metered
from gpuaas.metering.selectors import UsageFilters, intervals_for
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE
from quotas.resources import MEMORY, STORAGE, VCPU, gpu_resource, gpu_type_slug, is_spot, spot_resource
from quotas.selectors import LimitLine, limits_for_project
from tenants.actors import Actor
from tenants.models import Project

NAMES = {VCPU: "vCPU", MEMORY: "Memory", STORAGE: "Storage"}
SHARED = {"cpu": VCPU, "memory": MEMORY, "storage": STORAGE}
UNITS = {MEMORY: "GiB", STORAGE: "GiB"}


@dataclass(frozen=True)
class LimitRow:
    line: LimitLine
    name: str
    unit: str
    meter: Meter
    organization: Meter
    left: str


def gpus_allocated(*, actor: Actor, project: Project) -> tuple[dict[str, int], Decimal]:
    """What pods and machines use at this moment: devices by resource key, and as GPUs those that are held; 1 query."""
    filters = UsageFilters(project=project, meter=Metered.GPU_ALLOCATED, open_only=True)
    rows = intervals_for(actor=actor, filters=filters).filter(flavor__isnull=False).order_by()
    sums = rows.values_list(
        "flavor__pool__gpu_type__slug", "flavor__pool__card_share", "flavor__notice_seconds"
    )
    devices: dict[str, int] = {}
    cards = Decimal(0)
    for slug, share, notice, total in sums.annotate(total=Sum("quantity")):
        resource = spot_resource(slug) if notice else gpu_resource(slug)
        devices[resource] = devices.get(resource, 0) + int(total)
        cards += 0 if notice else total * share
    return devices, round(cards, 4)


def shared_sums() -> dict[str, Aggregate]:
    """Of workspaces: vCPU, memory and storage that their pods use at this moment, as the sites last counted them."""
    return {
        resource: Sum(Cast(KeyTextTransform(key, KeyTransform("used", "observed")), FloatField()), default=0)
        for key, resource in SHARED.items()
    }


def shared_allocated(*, project: Project) -> dict[str, int]:
    """Of a project; 1 query."""
    sums = Workspace.objects.filter(project=project, state__in=LIVE).aggregate(**shared_sums())
    return {resource: int(used) for resource, used in sums.items()}


def limit_rows(*, project: Project, allocated: Mapping[str, int]) -> tuple[LimitRow, ...]:
    lines = limits_for_project(project=project)
    slugs = [gpu_type_slug(line.resource) for line in lines]
    names = dict(GpuType.objects.filter(slug__in=slugs).values_list("slug", "name"))
    return tuple(_row(line, names, allocated) for line in lines)


def _row(line: LimitLine, names: Mapping[str, str], allocated: Mapping[str, int]) -> LimitRow:
    slug = gpu_type_slug(line.resource)
    name = NAMES.get(line.resource) or gpu_name(line.resource, names.get(slug, slug))
    unit = UNITS.get(line.resource, "")
    used = min(allocated.get(line.resource, 0), line.used)
    left = "no limit" if line.left is None else f"{line.left:,}{f' {unit}' if unit else ''}"
    own = _meter(name, used, line.used - used, line.limit, unit)
    shared = _meter(name, 0, line.organization_used, line.organization_limit, unit)
    return LimitRow(line, name, unit, own, shared, left)


def gpu_name(resource: str, name: str) -> str:
    """name: of the GPU type."""
    return f"{name}, spot" if is_spot(resource) else name


def _meter(name: str, used: int, held: int, limit: int | None, unit: str) -> Meter:
    top = "no limit" if limit is None else f"{limit:,}"
    words = f"{used + held:,} of {top}{f' {unit}' if unit else ''}"
    return Meter(used=used, held=held, limit=limit, label=name, text=words)
