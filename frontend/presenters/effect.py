"""What suspending, resuming and deleting change of what is held and of what it costs, told before it is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django import forms

from billing.clusters import cluster_wanted_quote, draft_quote
from billing.held import held_quote
from billing.quotes import Quote, QuoteItem, quote
from frontend import formats
from frontend.components import Action, Fact, Meter, Notice
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import money
from frontend.presenters.cluster_answer import meters_of
from frontend.presenters.cost import classes_of
from frontend.presenters.held import Held, kind_of, why_not
from frontend.presenters.words import units_of
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterPool, WarmPool
from gpuaas.clusters.services import Draft, scale_preview
from gpuaas.clusters.services import resume_preview as cluster_resume_preview
from gpuaas.core.errors import Invalid
from gpuaas.core.looks import Tone
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import resume_preview as workspace_resume_preview
from quotas.amounts import amounts_of
from quotas.checks import Scope
from quotas.resources import STORAGE, gpu_type_slug
from quotas.selectors import Preview, admission_preview, limits_for_project, reservations_held
from tenants.models import Project
from tenants.roles import Permission

SUSPEND, RESUME, DELETE, RETRY = "suspend", "resume", "delete", "retry"


@dataclass(frozen=True)
class Effect:
    """blocked: why the service would refuse it now; "" if it would not."""

    notice: Notice
    meters: tuple[Meter, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    blocked: str = ""


def effect_of(row: Held, verb: str, here: ProjectPlace) -> Effect:
    if verb in {RESUME, RETRY} and (why := why_not(row, Verb(verb))):
        return Effect(Notice(Tone.WARN, "This cannot be done now", why), blocked=why)
    facts, notes = _money(row, verb) if here.can(Permission.BILLING_VIEW) else ((), ())
    if verb == RESUME:
        preview = _resumed(row)
        return Effect(verdict(preview), meters_of(preview.checks), facts, notes, blocked_by(preview))
    if verb == RETRY:
        text = "Nothing more is reserved: limits and capacity stay as they are. Usage is charged as it becomes ready."
        return Effect(Notice(Tone.OK, "What it needs is still reserved", text), (), facts, notes)
    held = reservations_held(holder_kind=kind_of(row).noun, holder_id=row.pk)
    meters = _released(row, held, _kept(row, held) if verb == SUSPEND else {})
    when = "the site confirms it" if verb == SUSPEND else "nothing is left of it at the site"
    title = "Its GPUs are released" if meters else "It holds no GPUs"
    return Effect(
        Notice(Tone.WAIT, title, f"Limits have room again and charges fall when {when}."),
        meters,
        facts,
        notes,
    )


def changed_meanwhile(row: Held, form: forms.Form, url: str) -> Notice | None:
    """Where the form was read of an earlier version, which would be refused; `url` is where it is read again."""
    if not form.is_bound or form.data.get("version", "") in {"", str(row.version)}:
        return None
    text = f"{row.name} has changed since you read it. Read it again, then decide."
    return Notice(Tone.WARN, "It has changed meanwhile", text, (Action("Read it again", url),))


def taken(project: Project, site: Site, items: Sequence[QuoteItem], storage_gib: int) -> Effect:
    """Of what runs already and is taken up as it is."""
    amounts = amounts_of([(item.flavor, item.count) for item in items], storage_gib=storage_gib)
    preview = admission_preview(project=project, site=site, amounts=amounts)
    price = quote(organization=project.organization, items=items, storage_gib=storage_gib)
    facts = (
        Fact("Per hour from then on", formats.price(price.per_hour, price.currency)),
        Fact("Per month at these prices", formats.money(price.per_month, price.currency)),
    )
    return Effect(
        verdict(preview), meters_of(preview.checks), facts, money.notes_of(price), blocked_by(preview)
    )


def kept_ready(pool: WarmPool, draft: Draft, wanted: int, per_hour: Decimal) -> Effect:
    """Of a warm pool that is to keep so many of this cluster ready. per_hour: of its clusters that wait now."""
    waits = pool.clusters.filter(claimed_at__isnull=True).count() if draft.document == pool.document else 0
    more, takes = max(wanted - waits, 0), draft.takes
    preview = admission_preview(
        project=pool.project,
        site=pool.template.site,
        amounts=_times(takes.home, more),
        elsewhere={site: _times(amounts, more) for site, amounts in takes.elsewhere.items()},
    )
    one = draft_quote(draft=draft)
    facts = (
        Fact("One costs", f"{formats.price(one.per_hour, one.currency)} per hour"),
        Fact("Per hour now", formats.price(per_hour, one.currency)),
        Fact("Per hour once all are ready", formats.price(one.per_hour * wanted, one.currency)),
        Fact("Difference per hour", formats.signed_price(one.per_hour * wanted - per_hour, one.currency)),
    )
    notice = Notice(
        Tone.OK, f"{more:,} more to build" if more else "Nothing more to build", "All of it fits now."
    )
    if not preview.fits:
        rest = "As many are built as there is room for; the others wait."
        notice = Notice(Tone.WARN, verdict(preview).title, rest)
    return Effect(notice, meters_of(preview.checks), facts, money.notes_of(one))


def _times(amounts: Mapping[str, int], count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in amounts.items()}


def scaled_by(pool: ClusterPool, minimum: int, maximum: int, here: ProjectPlace) -> Effect:
    """What the pool may come to, at most, while a policy with these bounds scales it."""
    row, title = pool.cluster, f"Between {minimum:,} and {maximum:,} workers"
    try:
        preview = scale_preview(cluster=row, counts={pool.name: maximum})
    except Invalid as error:
        return Effect(Notice(Tone.WARN, title, sentence_of(error.message)))
    rest = "" if preview.fits else " The most does not fit now; then as many are added as there is room for."
    notice = Notice(Tone.OK if preview.fits else Tone.WARN, title, f"It has {pool.count:,} now.{rest}")
    facts: tuple[Fact, ...] = ()
    if here.can(Permission.BILLING_VIEW):
        with money.Unpriced():
            now, then = (
                held_quote(holder=row),
                cluster_wanted_quote(cluster=row, counts={pool.name: maximum}),
            )
            facts = (
                Fact("Cluster per hour now", formats.price(now.per_hour, now.currency)),
                Fact("At the most", formats.price(then.per_hour, then.currency)),
            )
    return Effect(notice, meters_of(preview.checks), facts)


def blocked_by(preview: Preview) -> str:
    """Why a button that asks for this would be refused; "" where it would not."""
    if preview.fits:
        return ""
    if preview.hold:
        return "New requests are blocked."
    return f"It exceeds the {'capacity' if preview.refusals[0].scope is Scope.SITE else 'limit'}."


def verdict(
    preview: Preview, fits: str = "What it needs is within the limits and free at its site."
) -> Notice:
    if preview.fits:
        return Notice(Tone.OK, "Available now", fits)
    if preview.hold:
        return Notice(Tone.BAD, "New requests are blocked", preview.hold)
    check = preview.refusals[0]
    if check.reserved_because:
        return Notice(Tone.BAD, f"Reserved at {check.scope_name}", check.reserved_because)
    return Notice(Tone.BAD, check.title(units_of([check.resource])[check.resource]), check.numbers)


def tell_beside(form: forms.Form, preview: Preview, fields: Mapping[str, str]) -> None:
    """What has no room is an error of the field that asks for it."""
    units = units_of(check.resource for check in preview.refusals)
    for check in preview.refusals if form.is_bound else ():
        name = fields.get(check.resource, "")
        if name and name not in form.errors:
            form.add_error(name, f"{check.title(units[check.resource])}. {check.numbers}")


def _resumed(row: Held) -> Preview:
    if isinstance(row, Cluster):
        return cluster_resume_preview(cluster=row)
    return workspace_resume_preview(workspace=row)


def _kept(row: Held, held: Mapping[str, int]) -> dict[str, int]:
    """GPUs go; a workspace keeps its storage, a cluster what its control plane has."""
    if isinstance(row, Workspace):
        return {STORAGE: held.get(STORAGE, 0)}
    return {name: amount for name, amount in held.items() if not gpu_type_slug(name)}


def _released(row: Held, held: Mapping[str, int], kept: Mapping[str, int]) -> tuple[Meter, ...]:
    """What the limits of project and organization hold of its GPUs, now and then."""
    found = []
    project, units = row.project, units_of(held)
    for line in limits_for_project(project=project):
        less = held.get(line.resource, 0) - kept.get(line.resource, 0)
        if less <= 0 or not gpu_type_slug(line.resource):
            continue
        unit = units[line.resource]
        for name, used, limit in (
            (project.slug, line.used, line.limit),
            (project.organization.slug, line.organization_used, line.organization_limit),
        ):
            top = "no limit" if limit is None else f"{limit:,}"
            text = f"{used:,} → {used - less:,} of {top}"
            found.append(Meter(0, used - less, 0, limit, f"Limit of {name}, {unit}", text))
    return tuple(found)


def _money(row: Held, verb: str) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    with money.Unpriced():
        now = held_quote(holder=row)
        then = None if verb == DELETE else _then(row, awake=verb in {RESUME, RETRY})
        per_hour = then.per_hour if then else Decimal(0)
        facts = [
            Fact("Per hour now", formats.price(now.per_hour, now.currency)),
            Fact("Per hour then", formats.price(per_hour, now.currency)),
            Fact("Difference per hour", formats.signed_price(per_hour - now.per_hour, now.currency)),
        ]
        if now.to_lease_end is not None:
            left = (then.to_lease_end if then else None) or Decimal(0)
            more = formats.signed(left - now.to_lease_end, now.currency)
            facts.append(Fact("Until the end of the lease", more))
        return tuple(facts), money.notes_of(then) if then else ()
    return (), ()


def _then(row: Held, *, awake: bool) -> Quote:
    if isinstance(row, Cluster):
        return cluster_wanted_quote(cluster=row, awake=awake)
    return quote(
        organization=row.project.organization,
        items=[QuoteItem(item.flavor, item.count) for item in row.flavors.all() if awake],
        storage_gib=row.storage_gib,
        classes=classes_of(row),
        lease_ends_at=row.lease_ends_at,
    )
