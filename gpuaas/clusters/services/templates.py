"""Templates: created and offered by operators; versions are added, never changed."""

import re
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.spec import flavor_amount
from gpuaas.clusters.definition import Definition, definition_read
from gpuaas.clusters.models import ClusterTemplate, TemplateGrant, TemplateVersion
from gpuaas.clusters.states import TemplateState
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of, version_require
from gpuaas.core.schema import Unfit
from gpuaas.providers.base import ClusterBurstCapability, ClusterKind
from gpuaas.providers.registry import cluster_driver_class
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import platform_require

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def template_create(
    *, actor: Actor, slug: str, name: str, kind: str, site: Site, driver: str, summary: str = ""
) -> ClusterTemplate:
    """Creates a draft without a version. Raises Invalid at the field, Conflict if the slug is in use."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if type(slug) is not str or not SLUG.fullmatch(slug):
        raise Invalid.field("slug", "use 1 to 40 lower-case letters, digits and hyphens")
    if kind not in set(ClusterKind):
        raise Invalid.field("kind", f"a cluster must be one of {', '.join(ClusterKind)}")
    if ClusterKind(kind) not in cluster_driver_class(driver).kinds:
        raise Invalid.field("driver", f"the driver {driver} does not build clusters of the kind {kind}")
    row = ClusterTemplate(
        slug=slug, kind=kind, site=site, driver=driver, **_texts({"name": name, "summary": summary})
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            after = {"site": site.slug, "kind": kind, "driver": driver}
            audit_record(actor=actor, action="cluster_template.create", target=row, after=after)
    except IntegrityError as error:
        raise Conflict(f"a template {slug} already exists", detail={"field": "slug"}) from error
    return row


@transaction.atomic
def template_version_add(
    *, actor: Actor, template: ClusterTemplate, document: Any, note: str = ""
) -> TemplateVersion:
    """The newest version from now on; clusters of earlier versions do not change. Raises Invalid on `document`."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = template_locked(template)
    definition = definition_read(document, kind=row.kind)
    places = (row.site, *_burst_sites(row, definition))
    if definition.kind is ClusterKind.SLURM and definition.counts != (1,):
        raise Unfit(
            "control_plane.counts", "a Slurm cluster has one head, with the controller and the accounts"
        )
    driver = cluster_driver_class(row.driver)
    driver.settings_check(definition.kind, definition.settings)
    asked = {slug for pool in definition.pools for slug in pool.flavors}
    known = Flavor.objects.filter(slug__in=asked, pool__site__in=places).select_related("pool")
    if missing := sorted(asked - {flavor.slug for flavor in known}):
        named = " and ".join(site.slug for site in places)
        few = f"the site {named} has" if len(places) == 1 else f"the sites {named} have"
        raise Unfit("pools", f"{few} no flavor {missing[0]!r}")
    if lent := sorted(flavor.slug for flavor in known if flavor.is_lent):
        raise Unfit("pools", f"{lent[0]} is spot, which workspaces alone can have")
    driver.flavors_check(flavor_amount(flavor, 1) for flavor in known)
    last = row.versions.values_list("number", flat=True).first() or 0
    version = TemplateVersion.objects.create(
        template=row,
        number=last + 1,
        document=document,
        created_by=actor.name,
        **_texts({"note": note}),
    )
    after = {"number": version.number, "document": document}
    audit_record(actor=actor, action="cluster_template.version", target=row, after=after)
    return version


@transaction.atomic
def template_update(
    *,
    actor: Actor,
    template: ClusterTemplate,
    name: str | None = None,
    summary: str | None = None,
    public: bool | None = None,
    state: str | None = None,
    expected_version: int | None = None,
) -> ClusterTemplate:
    """Fields that are not given do not change. A template can be offered once it has a version."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = template_locked(template, expected_version)
    given: dict[str, Any] = {"name": name, "summary": summary, "public": public, "state": state}
    changes = {key: value for key, value in given.items() if value is not None}
    if state is not None and state not in TemplateState.values:
        raise Invalid.field("state", f"a template must be one of {', '.join(TemplateState.values)}")
    if state in {TemplateState.ACTIVE, TemplateState.DEPRECATED} and not row.versions.exists():
        raise Invalid.field("state", "add a version first: there is nothing to order yet")
    if state == TemplateState.DRAFT and row.state != TemplateState.DRAFT:
        raise Invalid.field(
            "state", "a template that was offered can be deprecated or retired, but not be a draft again"
        )
    changes |= _texts({key: changes[key] for key in ("name", "summary") if key in changes})
    before = {key: getattr(row, key) for key in changes}
    for key, value in changes.items():
        setattr(row, key, value)
    row.version += 1
    row.save(update_fields=[*changes, "version"])
    audit_record(actor=actor, action="cluster_template.update", target=row, before=before, after=changes)
    return row


@transaction.atomic
def template_grant(
    *, actor: Actor, template: ClusterTemplate, organization: Organization, granted: bool
) -> None:
    """Who may order a template that is not public; repeating it changes nothing. Existing clusters stay."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = template_locked(template)
    held = TemplateGrant.objects.filter(template=row, organization=organization)
    if held.exists() == granted:
        return
    if granted:
        TemplateGrant.objects.create(template=row, organization=organization)
    else:
        held.delete()
    audit_record(
        actor=actor,
        action="cluster_template.grant" if granted else "cluster_template.revoke",
        target=row,
        organization=organization,
    )


@transaction.atomic
def template_version_deprecate(
    *, actor: Actor, version: TemplateVersion, deprecated: bool = True
) -> TemplateVersion:
    """Orders of it show a warning, or no longer do."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    template_locked(version.template)
    row = TemplateVersion.objects.get(pk=version.pk)
    if (row.deprecated_at is not None) == deprecated:
        return row
    row.deprecated_at = clock.now() if deprecated else None
    row.save(update_fields=["deprecated_at"])
    after = {"number": row.number, "deprecated": deprecated}
    audit_record(actor=actor, action="cluster_template.deprecate", target=row.template, after=after)
    return row


def _burst_sites(template: ClusterTemplate, definition: Definition) -> list[Site]:
    """Sites where pools can be: other sites that the template's driver drives like the template's own."""
    if not definition.burst:
        return []
    driver = cluster_driver_class(template.driver)
    if not issubclass(driver, ClusterBurstCapability):
        raise Unfit("burst", f"clusters of the driver {template.driver} cannot have pools at other sites")
    sites = {site.slug: site for site in Site.objects.filter(slug__in=definition.burst)}
    for slug in definition.burst:
        if slug not in sites:
            raise Unfit("burst", f"there is no site {slug!r}")
        if sites[slug] == template.site:
            raise Unfit("burst", f"{slug} is the template's own site: name other sites")
        if sites[slug].driver != template.site.driver:
            raise Unfit(
                "burst", f"the site {slug} has the driver {sites[slug].driver}, not {template.site.driver}"
            )
    return [sites[slug] for slug in definition.burst]


def template_locked(template: ClusterTemplate, expected_version: int | None = None) -> ClusterTemplate:
    rows = ClusterTemplate.objects.select_for_update(of=("self",), no_key=True).select_related("site")
    row = first_of(rows.filter(pk=template.pk), "template")
    version_require(row.version, expected_version, "template")
    return row


def _texts(texts: dict[str, str]) -> dict[str, str]:
    for key, text in texts.items():
        most = 100 if key == "name" else 300
        printable = type(text) is str and text.isprintable() and len(text) <= most
        if not printable or (key == "name" and not text.strip()):
            raise Invalid.field(key, f"one line of at most {most} characters")
    return texts
