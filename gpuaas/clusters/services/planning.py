"""The plan of an order: exactly what the order then reserves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from gpuaas.catalog.models import Flavor
from gpuaas.catalog.selectors import is_sold
from gpuaas.clusters.definition import NAME, Definition
from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTemplate, TemplateVersion, WarmPool
from gpuaas.clusters.selectors import (
    Usual,
    definition_of,
    template_get_for,
    template_version_get,
    usual_time,
)
from gpuaas.clusters.site import cluster_driver_of
from gpuaas.clusters.spec import Takes, burst_site, parts_first, takes_of
from gpuaas.clusters.states import CLAIM, TemplateState
from gpuaas.clusters.steps import plan_whole
from gpuaas.clusters.waiting import claimable
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.ids import short, uuid7
from gpuaas.core.schema import document_check
from gpuaas.lifecycle.lease import lease_validate
from gpuaas.providers.base import Change, ClusterPlan
from quotas.checks import Scope
from quotas.selectors import Preview, admission_preview
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import project_require

PoolItem = tuple[Flavor, int]


@dataclass(frozen=True)
class Draft:
    """A valid order, not saved and not reserved."""

    cluster: Cluster
    pools: tuple[ClusterPool, ...]
    definition: Definition
    document: Mapping[str, Any]
    plan: ClusterPlan

    @property
    def items(self) -> list[PoolItem]:
        """Flavors with their counts, for amounts and prices."""
        return [(pool.flavor, pool.count) for pool in self.pools]

    @property
    def takes(self) -> Takes:
        return takes_of(self.cluster, self.items, self.definition)

    @property
    def amounts(self) -> dict[str, int]:
        """The total of all sites."""
        return self.takes.total

    def admission(self) -> Preview:
        takes = self.takes
        return admission_preview(
            project=self.cluster.project,
            site=self.cluster.site,
            amounts=takes.home,
            elsewhere=takes.elsewhere,
        )


@dataclass(frozen=True)
class Plan:
    """`admission`: the margin or deficit of each limit and of the site's capacity. waiting: how many equal clusters
    are ready in warm pools; then the order gets one of them, which has its capacity already. usual: duration of
    earlier orders (or claims) of the template, None without any."""

    draft: Draft
    admission: Preview
    usual: Usual | None
    warnings: tuple[str, ...]
    waiting: int = 0

    @property
    def fits(self) -> bool:
        return self.admission.fits


def cluster_plan(
    *,
    actor: Actor,
    project: Project,
    template: str,
    document: Any,
    name: str | None = None,
    number: int | None = None,
    lease_ends_at: datetime | None = None,
) -> Plan:
    """By the template's newest version, or the one with `number`. Raises Invalid on the fields of the document."""
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_VIEW)
    found = template_get_for(actor=actor, project=project, slug=template)
    version = template_version_get(template=found, number=number)
    draft = draft_make(
        project=project,
        version=version,
        document=document,
        name="cluster" if name is None else name_validate(name),
        lease_ends_at=lease_ends_at,
    )
    waiting = claimable(draft.cluster, draft.pools).count()
    admission = draft.admission()
    return Plan(
        draft=draft,
        admission=_handed_over(admission) if waiting else admission,
        usual=usual_time(template_id=found.pk, kind=CLAIM if waiting else Change.CREATE),
        warnings=(*_warnings(found, version), *draft.plan.warnings),
        waiting=waiting,
    )


def _handed_over(admission: Preview) -> Preview:
    """Capacity of a cluster that is handed over is not needed again; a pool reserved for another organization stays
    so."""
    checks = (check for check in admission.checks if check.scope is not Scope.SITE or check.reserved_because)
    return Preview(tuple(checks), admission.hold)


def draft_make(
    *,
    project: Project,
    version: TemplateVersion,
    document: Any,
    name: str,
    lease_ends_at: datetime | None,
    warm_pool: WarmPool | None = None,
) -> Draft:
    """warm_pool: the pool for which it is made; then it is named by its id."""
    definition = definition_of(version)
    checked = document_check(definition.schema, document)
    template, moment = version.template, clock.now()
    if not template.site.takes_new:
        raise Conflict(f"the site {template.site.slug} accepts no new requests now")
    chosen = [one.name for one in definition.addons if one.required or checked["addons"].get(one.name)]
    cluster = Cluster(
        id=uuid7(),
        project=project,
        site=template.site,
        template_version=version,
        name=name,
        release=checked["release"],
        control_count=checked["control_plane"],
        addons=chosen,
        parameters=checked["parameters"],
        lease_ends_at=lease_validate(lease_ends_at, now=moment),
        created_at=moment,
        due_at=moment,
        warm_pool=warm_pool,
    )
    if warm_pool is not None:
        cluster.name = f"warm-{short(cluster.pk)}"
    pools = tuple(_pools(cluster, definition, checked))
    parts = parts_first(cluster, pools, definition)
    plan = plan_whole(Change.CREATE, parts, lambda site: cluster_driver_of(template, site or template.site))
    return Draft(cluster, pools, definition, checked, plan)


def name_validate(name: Any) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Invalid.field(
            "name",
            "use 1 to 20 lower-case letters, digits and hyphens; start with a letter, do not end "
            "with a hyphen",
        )
    return name


def _pools(cluster: Cluster, definition: Definition, checked: Mapping[str, Any]) -> Iterable[ClusterPool]:
    chosen: dict[str, dict[str, Any]] = checked["pools"]
    rows = Flavor.objects.select_related("pool__gpu_type", "pool__site").filter(
        Q(pool__site=cluster.site) | Q(pool__site__slug__in=definition.burst),
        slug__in=[one["flavor"] for one in chosen.values()],
    )
    known = {flavor.slug: flavor for flavor in rows}
    wrong: dict[str, list[str]] = {}
    for pool in definition.pools:
        slug, count = chosen[pool.name]["flavor"], chosen[pool.name]["count"]
        flavor = known.get(slug)
        if flavor is None or (count and not is_sold(flavor)):
            wrong[f"pools.{pool.name}.flavor"] = [f"{slug} is not on offer now: choose another flavor"]
            continue
        if flavor.is_lent:
            wrong[f"pools.{pool.name}.flavor"] = [
                f"{slug} is spot, which workspaces alone can have: choose another flavor"
            ]
            continue
        site = burst_site(cluster, flavor)
        if site and count and not site.takes_new:
            wrong[f"pools.{pool.name}.flavor"] = [
                f"the site {site.slug} accepts no new requests now: choose another flavor"
            ]
            continue
        yield ClusterPool(
            cluster=cluster, name=pool.name, flavor=flavor, count=count, release=cluster.release
        )
    if wrong:
        raise Invalid(next(iter(wrong.values()))[0], fields=wrong)


def _warnings(template: ClusterTemplate, version: TemplateVersion) -> list[str]:
    warnings = []
    if template.state == TemplateState.DEPRECATED:
        warnings.append(f"The template {template.slug} is deprecated: it will be withdrawn.")
    if version.deprecated_at is not None:
        warnings.append(f"Version {version.number} of the template is deprecated: choose a newer one.")
    return warnings
