"""The summary beside an order while it is filled in, like the one beside a request for a workspace."""

from collections import Counter
from datetime import datetime

from billing.clusters import PricedPlan
from frontend import formats
from frontend.components import Action, AnswerPanel, Creation, Fact, Meter, Notice
from frontend.presenters.answer import price_line, total_line
from frontend.presenters.money import month_words, notes_of
from frontend.presenters.unconfirmed import waits_at
from frontend.presenters.words import units_of
from gpuaas.clusters.services import Plan
from gpuaas.clusters.spec import burst_site
from gpuaas.core.looks import Tone
from quotas.checks import Check, Scope
from quotas.resources import gpu_type_slug

SUBMIT = "Order cluster"
ICONS = {"machine": "server-2", "network": "network", "load-balancer": "send", "add-on": "components"}


def waiting(text: str) -> AnswerPanel:
    notice = Notice(Tone.WARN, "Check your input", text)
    return AnswerPanel("Your cluster", notice, submit=Action(SUBMIT, disabled=text))


def refused(text: str) -> AnswerPanel:
    notice = Notice(Tone.BAD, "Not available now", text)
    return AnswerPanel("Your cluster", notice, submit=Action(SUBMIT, disabled="It cannot be ordered now."))


def panel_of(priced: PricedPlan, *, now: datetime, named: bool) -> AnswerPanel:
    plan = priced.plan
    draft = plan.draft
    template = draft.cluster.template_version.template
    quote = priced.quote
    lines = tuple(price_line(line, quote.currency) for line in quote.lines) if quote else ()
    hours = round((draft.cluster.lease_ends_at - now).total_seconds() / 3600)
    lease_cost = quote.to_lease_end if quote else None
    return AnswerPanel(
        title=" and ".join([f"{template.name} at {draft.cluster.site.slug}", *_elsewhere(plan)]),
        notice=_notice(plan),
        meters=_meters(plan),
        facts=_facts(plan),
        lines=lines,
        total=total_line(quote) if quote else None,
        later_label=month_words(quote) if quote else "",
        lease_cost_label="To end of lease" if lease_cost is not None else "",
        lease_cost_note=f"{hours:,} h",
        lease_cost=formats.money(lease_cost, quote.currency) if quote and lease_cost is not None else "",
        warning=" ".join((*plan.warnings, *(notes_of(quote) if quote else ()))),
        creates=_creates(plan),
        submit=_submit(plan, named=named),
    )


def _notice(plan: Plan) -> Notice:
    preview = plan.admission
    if preview.hold:
        return Notice(Tone.BAD, "New requests are blocked", preview.hold)
    if plan.fits:
        workers = (flavor.pool.site for flavor, count in plan.draft.items if count)
        sites = [plan.draft.cluster.site, *workers]
        return waits_at(sites) or Notice(
            Tone.OK, "Available now", "The request fits within limits and capacity."
        )
    check = preview.refusals[0]
    rest = len(preview.refusals) - 1
    more = f" {rest} more limit{' is' if rest == 1 else 's are'} exceeded." if rest else ""
    return Notice(Tone.BAD, check.title(units_of([check.resource])[check.resource]), f"{check.numbers}{more}")


def meters_of(checks: tuple[Check, ...]) -> tuple[Meter, ...]:
    """GPUs always, other resources only if their limit refuses the order."""
    units = units_of(check.resource for check in checks)
    return tuple(
        Meter(
            used=0,
            held=check.used,
            asked=check.asked,
            limit=check.limit,
            label=f"{'Capacity' if check.scope is Scope.SITE else 'Limit'} of {check.scope_name}, {units[check.resource]}",
            text=f"{check.used:,} + {check.asked:,} of {'no limit' if check.limit is None else f'{check.limit:,}'}",
        )
        for check in checks
        if check.asked > 0 and (gpu_type_slug(check.resource) or not check.fits)
    )


def _meters(plan: Plan) -> tuple[Meter, ...]:
    return meters_of(plan.admission.checks)[:5]


def _facts(plan: Plan) -> tuple[Fact, ...]:
    usual = plan.usual
    ready = f"about {formats.duration(round(usual.median) or 1)}" if usual else "no history yet"
    facts = [Fact("Ready in", ready)]
    if plan.waiting:
        facts = [
            Fact("Ready in", ready if usual else "seconds"),
            Fact("Prebuilt and ready", f"{plan.waiting:,}"),
        ]
    if usual:
        facts.append(Fact("9 out of 10 within", formats.duration(round(usual.p90) or 1)))
    facts.append(Fact("Workers", f"{sum(count for _, count in plan.draft.items):,}"))
    facts += [Fact(f"Of these at {slug}", f"{count:,}") for slug, count in _elsewhere(plan).items()]
    gpus = sum(flavor.pool.in_cards(flavor.gpus * count) for flavor, count in plan.draft.items)
    facts.append(Fact("GPUs", formats.gpus(gpus)))
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
    return tuple(Creation(ICONS.get(kind, "folder"), _counted(kind, count)) for kind, count in kinds.items())


def _counted(kind: str, count: int) -> str:
    """Such as "3 machines", "1 load balancer"; a kind of a Kubernetes API is a name: "2 × Secret"."""
    if not kind.islower():
        return f"{count:,} × {kind}"
    noun = kind if kind == "add-on" else kind.replace("-", " ")
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _submit(plan: Plan, *, named: bool) -> Action:
    if plan.fits:
        return Action(SUBMIT, disabled="" if named else "Enter a name first.")
    if plan.admission.hold:
        return Action(SUBMIT, disabled="New requests are blocked.")
    where = "capacity" if plan.admission.refusals[0].scope is Scope.SITE else "limit"
    return Action(SUBMIT, disabled=f"It exceeds the {where}.")
