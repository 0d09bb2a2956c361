"""The steps of a change at all sites of a cluster, in one order: the plan of its own site, with those of the burst
sites inserted."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.spec import Part
from gpuaas.providers.base import Change, ClusterDriver, ClusterPlan, ClusterSpec, StepSpec

C = Change
DriverAt = Callable[[Site | None], ClusterDriver]


def plan_whole(
    change: Change,
    parts: Sequence[Part],
    driver_at: DriverAt,
    *,
    before: Sequence[Part] = (),
    held: Collection[UUID | None] = (),
) -> ClusterPlan:
    """`before`: what was confirmed last, none if unknown; `held`: the burst sites that ever held something of it.

    Workers elsewhere are added after the control plane exists. They are removed after people's access and before the
    control plane.
    """
    known = {part.site_id: part for part in before}
    own, *others = parts
    first = driver_at(None).plan(change, own.spec, known[None].spec if None in known else None)
    plans = [
        _named(part, driver_at(part.site).plan(change, part.spec, _spec_before(part, known)))
        for part in others
        if _is_touched(change, part, known, held)
    ]
    burst_steps = [step for plan in plans for step in plan.steps]
    at = 1 if change is C.DELETE else len(first.steps)
    return ClusterPlan(
        (*first.steps[:at], *burst_steps, *first.steps[at:]),
        tuple(dict.fromkeys(warning for plan in (first, *plans) for warning in plan.warnings)),
    )


def sites_held(cluster: Cluster, parts: Iterable[Part]) -> set[UUID | None]:
    """The burst sites that ever held something; no query without any."""
    if not any(part.site for part in parts):
        return set()
    return set(cluster.ledger.exclude(site=None).order_by().values_list("site_id", flat=True).distinct())


def _is_touched(
    change: Change, part: Part, known: dict[UUID | None, Part], held: Collection[UUID | None]
) -> bool:
    """A site that is not affected by the change is not asked, because it may not answer."""
    if change is C.DELETE:
        return part.site_id in held
    if part.site_id not in held and not part.spec.workers:
        return False
    return not known or part.site_id not in known or known[part.site_id].spec.pools != part.spec.pools


def _spec_before(part: Part, known: dict[UUID | None, Part]) -> ClusterSpec | None:
    return known[part.site_id].spec if part.site_id in known else None


def _named(part: Part, plan: ClusterPlan) -> ClusterPlan:
    return replace(plan, steps=tuple(_at(part.slug, step) for step in plan.steps))


def _at(slug: str, step: StepSpec) -> StepSpec:
    return replace(step, site=slug, label=f"{step.label} at {slug}"[:100])
