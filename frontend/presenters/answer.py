"""The summary beside the request form while it is filled in: availability, limits, cost and what will be created."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from billing.quotes import Quote, QuoteItem, QuoteLine, quote
from frontend import formats
from frontend.components import Action, AnswerPanel, Creation, Fact, Meter, Notice, PriceLine
from frontend.presenters import money
from frontend.presenters.limits import gpu_name
from frontend.presenters.tuning import placement_words
from frontend.presenters.unconfirmed import waits_at
from frontend.presenters.words import words_of
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.offers import gives, notice_words
from gpuaas.core.looks import Tone
from gpuaas.metering.models import Meter as Metered
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.selectors import estimate
from quotas.checks import Check, Scope
from quotas.resources import MEMORY, STORAGE, VCPU, flavor_resource, gpu_type_slug
from quotas.selectors import Preview, admission_preview
from tenants.models import Project

SHARED_WORDS = {
    Metered.VCPU_HELD: "vCPU",
    Metered.MEMORY_HELD: "GiB memory",
    Metered.STORAGE_HELD: "GiB storage",
}
WORDS = {VCPU: "vCPU", MEMORY: "GiB memory", STORAGE: "GiB storage"}


@dataclass(frozen=True)
class Asked:
    """The form as filled in so far.

    `problem`: why a number cannot be read. `amiss`: why the request would be refused for a reason other than limits
    and capacity.
    """

    project: Project
    flavor: Flavor | None = None
    count: int | None = None
    storage_gib: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    lease_ends_at: datetime | None = None
    name: str = ""
    people: Sequence[str] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    count_problem: str = ""
    amiss: str = ""
    placement: str = ""

    @property
    def all_gib(self) -> int:
        return self.storage_gib + sum(self.classes.values())


@dataclass(frozen=True)
class Answer:
    """`count_problem` and `storage_problem` stand beside their fields; `most` is the greatest count that fits."""

    panel: AnswerPanel
    count_problem: str
    most: int
    storage_problem: str = ""


def answer_of(asked: Asked, *, now: datetime, take_url: str) -> Answer:
    flavor, count = asked.flavor, asked.count
    if flavor is None or count is None or count < 1 or asked.problem:
        return _waiting(asked)
    amounts = amounts_of([(flavor, count)], storage_gib=asked.all_gib)
    preview = admission_preview(project=asked.project, site=flavor.pool.site, amounts=amounts)
    most = most_of(preview, flavor, asked.all_gib)
    notice = _notice(preview, flavor, count, most, take_url)
    if preview.fits and asked.amiss:
        notice = Notice(Tone.WARN, "Change the request", asked.amiss)
    elif preview.fits:
        notice = waits_at([flavor.pool.site]) or notice
    price = _quote(asked, now)
    seconds = estimate(site=flavor.pool.site)
    panel = AnswerPanel(
        title=f"{count} × {flavor.name} at {flavor.pool.site.slug}",
        notice=notice,
        meters=_meters(preview, flavor, asked.allocated),
        facts=_facts(preview, flavor, seconds),
        gives=tuple(gives(flavor)),
        creates=_creates(asked, flavor, count),
        submit=_submit(preview, asked),
    )
    panel = _priced(panel, price, asked, now)
    of_storage = [check for check in preview.refusals if check.resource == STORAGE]
    others = [check for check in preview.refusals if check.resource != STORAGE]
    return Answer(
        panel,
        _short(others[0], flavor, most) if others else "",
        most,
        _too_large(of_storage[0]) if of_storage else "",
    )


def _too_large(check: Check) -> str:
    has = "has room for" if check.scope is Scope.SITE else "may hold"
    return f"{check.scope_name} {has} {check.left or 0:,} GiB more."


def most_of(preview: Preview, flavor: Flavor, storage_gib: int) -> int:
    """The greatest count of the flavor that every limit and the site leave room for."""
    one = amounts_of([(flavor, 1)], storage_gib=0)
    rooms = []
    for check in preview.checks:
        if check.left is None:
            continue
        if check.resource in one:
            rooms.append(check.left // one[check.resource])
        elif check.left < storage_gib:
            rooms.append(0)
    return min(rooms, default=0)


def _waiting(asked: Asked) -> Answer:
    if asked.problem:
        notice, why = Notice(Tone.WARN, "Check your input", asked.problem), asked.problem
    elif asked.flavor is None:
        notice = Notice(Tone.WAIT, "Choose a GPU", "Availability and cost then appear here.")
        why = "Choose a GPU first."
    else:
        notice, why = Notice(Tone.WAIT, "Enter a count", "The minimum is 1."), "Enter a count first."
    submit = Action("Create workspace", disabled=why)
    return Answer(AnswerPanel("Your request", notice, submit=submit), asked.count_problem, 0)


def unit_of(check: Check, flavor: Flavor) -> str:
    return WORDS.get(check.resource) or gpu_name(check.resource, flavor.pool.gpu_type.name)


def _notice(preview: Preview, flavor: Flavor, count: int, most: int, take_url: str) -> Notice:
    if preview.hold:
        return Notice(Tone.BAD, "New requests are blocked", preview.hold)
    if preview.fits:
        return _granted(flavor, count)
    check = preview.refusals[0]
    unit = unit_of(check, flavor)
    if check.reserved_because:
        return Notice(
            Tone.BAD, f"{unit} at {check.scope_name} is reserved", formats.local_times(check.reserved_because)
        )
    actions = (Action(f"Set count to {most:,}", post=f"{take_url}?take={most}"),) if most >= 1 else ()
    return Notice(Tone.BAD, check.title(unit), check.numbers, actions)


def _granted(flavor: Flavor, count: int) -> Notice:
    if flavor.is_lent:
        text = f"What you start runs while nobody who bought these GPUs needs them. {notice_words(flavor.notice_seconds)}."
        return Notice(Tone.OK, "Can be borrowed", text)
    block = flavor.pool.largest_block
    if count * flavor.gpus > block:
        text = f"No node has more than {block:,} that are not in use, so a job of {count * flavor.gpus:,} GPUs spans nodes."
        return Notice(Tone.WARN, "Available on more than one node", text)
    return Notice(Tone.OK, "Available now", "The request fits within limits and capacity.")


def _short(check: Check, flavor: Flavor, most: int) -> str:
    unit = unit_of(check, flavor)
    if check.reserved_because:
        return "reserved for another organization"
    over = check.asked - (check.left or 0)
    if gpu_type_slug(check.resource) and check.scope is not Scope.SITE:
        return f"{over:,} more than {check.scope_name} may hold"
    if check.scope is Scope.SITE:
        return f"{over:,} {unit} more than {check.scope_name} has left"
    return f"{over:,} {unit} more than {check.scope_name} may hold; the most that fits is {most:,}"


def _meters(preview: Preview, flavor: Flavor, allocated: Mapping[str, int]) -> tuple[Meter, ...]:
    """The tightest limit of the GPU type, and every other one that refuses."""
    resource = flavor_resource(flavor)
    tightest = preview.tightest(resource)
    shown = {resource: tightest} if tightest else {}
    for check in preview.refusals:
        shown.setdefault(check.resource if check.scope is not Scope.SITE else f"site {check.resource}", check)
    return tuple(_meter(check, flavor, allocated) for check in list(shown.values())[:3])


def _meter(check: Check, flavor: Flavor, allocated: Mapping[str, int]) -> Meter:
    used = min(allocated.get(check.resource, 0), check.used) if check.scope is Scope.PROJECT else 0
    what = "Capacity of" if check.scope is Scope.SITE else "Limit of"
    top = "no limit" if check.limit is None else f"{check.limit:,}"
    return Meter(
        used=used,
        held=check.used - used,
        asked=check.asked,
        limit=check.limit,
        label=f"{what} {check.scope_name}, {unit_of(check, flavor)}",
        text=f"{check.used:,} + {check.asked:,} of {top}",
    )


def _facts(preview: Preview, flavor: Flavor, seconds: float | None) -> tuple[Fact, ...]:
    pool = flavor.pool
    site = preview.capacity(flavor_resource(flavor))
    left = site.left if site else None
    ready = f"about {formats.duration(round(seconds) or 1)}" if seconds is not None else "no history yet"
    return (
        Fact(f"Free at {pool.site.slug} now", "not counted" if left is None else f"{left:,}"),
        Fact("Largest block on one node", f"{pool.largest_block:,}"),
        Fact("Ready in", ready),
    )


def _quote(asked: Asked, now: datetime) -> Quote | None:
    if asked.flavor is None or asked.count is None:
        return None
    items = [QuoteItem(asked.flavor, asked.count)]
    with money.Unpriced():
        return quote(
            organization=asked.project.organization,
            items=items,
            storage_gib=asked.storage_gib,
            lease_ends_at=asked.lease_ends_at,
            now=now,
            classes=asked.classes,
        )
    return None


def _priced(panel: AnswerPanel, price: Quote | None, asked: Asked, now: datetime) -> AnswerPanel:
    if price is None:
        return replace(panel, warning="No price is set yet. Ask your operator what it costs.")
    lines = tuple(price_line(line, price.currency) for line in price.lines)
    panel = replace(
        panel,
        lines=lines,
        total=total_line(price),
        later_label=money.month_words(price),
        warning=" ".join(money.notes_of(price)),
    )
    if price.to_lease_end is None or asked.lease_ends_at is None:
        return panel
    hours = round((asked.lease_ends_at - now).total_seconds() / 3600)
    cost = formats.money(price.to_lease_end, price.currency)
    return replace(panel, lease_cost_label="To end of lease", lease_cost_note=f"{hours:,} h", lease_cost=cost)


def total_line(price: Quote) -> PriceLine:
    whole = formats.money(price.in_month, price.currency)
    return PriceLine("Total", formats.price(price.per_hour, price.currency), whole)


def price_line(line: QuoteLine, currency: str) -> PriceLine:
    gpus = line.meter in (Metered.GPU_HELD, Metered.GPU_ALLOCATED)
    name = (
        line.gpu_words
        if gpus
        else f"{line.quantity:,} {SHARED_WORDS[line.meter]} {line.storage_class}".strip()
    )
    if line.per_hour is None:
        return PriceLine(name, "no price", "no price")
    return PriceLine(name, formats.price(line.per_hour, currency), formats.money(line.in_month, currency))


def _creates(asked: Asked, flavor: Flavor, count: int) -> tuple[Creation, ...]:
    amounts = f"{count * flavor.gpus:,} {flavor.pool.gpu_type.name}, {count * flavor.vcpus:,} vCPU"
    memory = f"{count * flavor.memory_gib:,} GiB"
    made = [
        Creation("folder", words_of(flavor.pool.site).space.capitalize(), f"gpu-…-{asked.name or 'name'}"),
        Creation("gauge", f"Quota of {amounts}, {memory}; no other GPUs"),
    ]
    if asked.storage_gib:
        made.append(Creation("database", f"Storage for up to {asked.storage_gib:,} GiB of volumes"))
    made += [
        Creation("database", f"Storage for up to {gib:,} GiB of volumes of {slug}")
        for slug, gib in asked.classes.items()
    ]
    if asked.placement and not words_of(flavor.pool.site).machines:
        made.append(Creation("grid-dots", _sentence(placement_words(asked.placement, flavor.pool.site)[1])))
    made.append(Creation("users", f"Access for {', '.join(asked.people)}"))
    made.append(Creation("shield-check", "Network isolated from other tenants"))
    return tuple(made)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _submit(preview: Preview, asked: Asked) -> Action:
    if preview.fits and asked.amiss:
        return Action("Create workspace", disabled=asked.amiss)
    if preview.fits:
        return Action("Create workspace", disabled="" if asked.name else "Enter a name first.")
    if preview.hold:
        return Action("Create workspace", disabled="New requests are blocked.")
    where = "capacity" if preview.refusals[0].scope is Scope.SITE else "limit"
    return Action("Create workspace", disabled=f"It exceeds the {where}.")
