"""The answer to an order while it is typed: the plan as the request's answer shows a workspace's."""

from collections import Counter
from datetime import datetime

from billing.clusters import PricedPlan
from billing.quotes import Quote
from frontend import formats
from frontend.components import Action, AnswerPanel, Creation, Fact, Meter, Notice, PriceLine, Tone
from frontend.presenters.answer import price_line
from gpuaas.clusters.services import Plan
from gpuaas.clusters.spec import burst_site
from quotas.checks import Check, Scope
from quotas.resources import resource_unit

SUBMIT = "Order cluster"
ICONS = {"machine": "server-2", "network": "network", "load-balancer": "send", "add-on": "components"}


def waiting(text: str, *, title: str = "Something cannot be read") -> AnswerPanel:
    notice = Notice(Tone.WARN, title, text)
    return AnswerPanel("Your cluster", notice, submit=Action(SUBMIT, disabled="not complete yet"))


def refused(text: str) -> AnswerPanel:
    notice = Notice(Tone.BAD, "This cannot be ordered now", text)
    return AnswerPanel("Your cluster", notice, submit=Action(SUBMIT, disabled="not now"))


def panel_of(priced: PricedPlan, *, now: datetime) -> AnswerPanel:
    plan = priced.plan
    draft = plan.draft
    template = draft.cluster.template_version.template
    quote = priced.quote
    lines = tuple(price_line(line, quote.currency) for line in quote.lines) if quote else ()
    hours = round((draft.cluster.lease_ends_at - now).total_seconds() / 3600)
    whole = quote.to_lease_end if quote else None
    return AnswerPanel(
        title=" and ".join([f"{template.name} at {draft.cluster.site.slug}", *_elsewhere(plan)]),
        notice=_notice(plan),
        meters=_meters(plan),
        facts=_facts(plan),
        lines=lines,
        total=_total(quote) if quote else None,
        later_label=f"{quote.month.day:%B} ({quote.hours} h)" if quote else "",
        whole_label="To end of lease" if whole is not None else "",
        whole_note=f"{hours:,} h",
        whole=formats.money(whole, quote.currency) if quote and whole is not None else "",
        warning=" ".join((*plan.warnings, *_money_notes(quote))),
        creates=_creates(plan),
        submit=_submit(plan),
    )


def _total(quote: Quote) -> PriceLine:
    return PriceLine(
        "Together",
        formats.money(quote.per_hour, quote.currency),
        formats.money(quote.per_month, quote.currency),
    )


def _money_notes(quote: Quote | None) -> tuple[str, ...]:
    if quote is None:
        return ()
    missing = () if quote.complete else ("Something here has no price yet; the sums leave it out.",)
    return (*missing, *quote.notes)


def _notice(plan: Plan) -> Notice:
    preview = plan.admission
    if preview.hold:
        return Notice(Tone.BAD, "New requests are blocked here", preview.hold)
    if plan.fits:
        return Notice(Tone.OK, "You can have this now", "Limits and capacity have room for it.")
    check = preview.refusals[0]
    rest = len(preview.refusals) - 1
    more = f" {rest} more limit{'' if rest == 1 else 's'} are short." if rest else ""
    return Notice(Tone.BAD, refusal_title(check), f"{refusal_text(check)}{more}")


def refusal_title(check: Check) -> str:
    unit = resource_unit(check.resource)
    if check.scope is Scope.SITE:
        return f"{check.scope_name} has {check.left or 0:,} {unit} left"
    if not check.limit:
        return f"{check.scope_name} has no limit for {unit}"
    return f"{check.scope_name} may hold {check.limit:,} {unit}"


def refusal_text(check: Check) -> str:
    if check.scope is not Scope.SITE and not check.limit:
        return "No limit means none may be held. An operator can set one."
    short = check.asked - (check.left or 0)
    return f"{check.used:,} are held, you ask for {check.asked:,} more: {short:,} too many."


def meters_of(checks: tuple[Check, ...]) -> tuple[Meter, ...]:
    """GPUs always; everything else where it refuses."""
    return tuple(
        Meter(
            used=0,
            held=check.used,
            asked=check.asked,
            limit=check.limit,
            label=f"{'Capacity' if check.scope is Scope.SITE else 'Limit'} of {check.scope_name}, {resource_unit(check.resource)}",
            text=f"{check.used:,} + {check.asked:,} of {'no limit' if check.limit is None else f'{check.limit:,}'}",
        )
        for check in checks
        if check.asked > 0 and (check.resource.startswith("gpu:") or not check.fits)
    )


def _meters(plan: Plan) -> tuple[Meter, ...]:
    return meters_of(plan.admission.checks)[:5]


def _facts(plan: Plan) -> tuple[Fact, ...]:
    usual = plan.usual
    said = f"about {formats.duration(round(usual.median) or 1)}" if usual else "no history yet"
    facts = [Fact("Ready in", said)]
    if plan.waiting:
        facts = [
            Fact("Ready in", said if usual else "seconds"),
            Fact("Wait ready for you", f"{plan.waiting:,}"),
        ]
    if usual:
        facts.append(Fact("Nine in ten within", formats.duration(round(usual.p90) or 1)))
    facts.append(Fact("Workers", f"{sum(count for _, count in plan.draft.items):,}"))
    facts += [Fact(f"Of these at {slug}", f"{count:,}") for slug, count in _elsewhere(plan).items()]
    gpus = sum(flavor.gpus * count for flavor, count in plan.draft.items)
    facts.append(Fact("GPUs", f"{gpus:,}"))
    return tuple(facts)


def _elsewhere(plan: Plan) -> dict[str, int]:
    """Workers by burst site."""
    found: Counter[str] = Counter()
    for flavor, count in plan.draft.items:
        site = burst_site(plan.draft.cluster, flavor)
        if site and count:
            found[site.slug] += count
    return dict(found)


def _creates(plan: Plan) -> tuple[Creation, ...]:
    kinds = Counter(one.kind for one in plan.draft.plan.objects)
    return tuple(
        Creation(ICONS.get(kind, "folder"), f"{count:,} × {kind.replace('-', ' ')}")
        for kind, count in kinds.items()
    )


def _submit(plan: Plan) -> Action:
    if plan.fits:
        return Action(SUBMIT)
    if plan.admission.hold:
        return Action(SUBMIT, disabled="new requests are blocked")
    where = "capacity" if plan.admission.refusals[0].scope is Scope.SITE else "limit"
    return Action(SUBMIT, disabled=f"not within the {where}")
