"""Sites as lists and pages show them: one tone and one sentence from many conditions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from frontend import formats
from frontend.components import Tone
from frontend.presenters.operator.capacity import PoolShown
from frontend.presenters.workspaces import words_of
from gpuaas.catalog.models import Node, Site
from gpuaas.catalog.selectors import site_checks
from gpuaas.core.conditions import Condition, Status, conditions_read

WORST_FIRST = (Tone.BAD, Tone.WARN, Tone.WAIT, Tone.OFF, Tone.OK)
DRIVERS = {
    "sandbox": "Sandbox",
    "sandbox-cloud": "Sandbox cloud",
    "kubernetes": "Kubernetes",
    "openstack": "OpenStack",
    "bare-metal": "Bare metal",
}


@dataclass(frozen=True)
class ConditionShown:
    name: str
    tone: Tone
    word: str
    text: str
    remedy: str
    since: datetime


@dataclass(frozen=True)
class SiteShown:
    site: Site
    tone: Tone
    word: str
    driver: str
    text: str
    remedy: str
    nodes: int
    gpus: int

    @property
    def what(self) -> str:
        return f"{version_of(self.site)}, {self.nodes} node{'' if self.nodes == 1 else 's'}"


def conditions_shown(conditions: Iterable[Condition]) -> tuple[ConditionShown, ...]:
    looks = {Status.TRUE: (Tone.OK, "yes"), Status.FALSE: (Tone.BAD, "no")}
    return tuple(
        ConditionShown(
            words_of(item.type),
            *looks.get(item.status, (Tone.WAIT, "unknown")),
            formats.local_times(item.message) or words_of(item.reason),
            item.remedy,
            item.since,
        )
        for item in conditions
    )


def version_of(site: Site) -> str:
    """`Kubernetes 1.36.3`; a version that says itself whose it is, is not said twice."""
    driver, version = DRIVERS.get(site.driver, site.driver), site.server_version
    if version.lower().startswith(site.driver.lower()):
        version = version[len(site.driver) :].strip()
    return f"{driver} {version}".strip()


@dataclass(frozen=True)
class Readiness:
    """Whether the site is fit to be sold: what is not as it should be, with its remedy, before what is."""

    tone: Tone
    word: str
    checks: tuple[ConditionShown, ...]

    @property
    def failing(self) -> tuple[ConditionShown, ...]:
        return tuple(check for check in self.checks if check.tone is not Tone.OK)

    @property
    def passing(self) -> tuple[ConditionShown, ...]:
        return tuple(check for check in self.checks if check.tone is Tone.OK)


def readiness_of(site: Site) -> Readiness:
    checks = conditions_shown(site_checks(site=site))
    if not checks:
        return Readiness(Tone.WAIT, "Not known", checks)
    wrong = sum(check.tone is not Tone.OK for check in checks)
    if not site.takes_new and site.enabled:
        return Readiness(Tone.BAD, "Nothing new is sold here", checks)
    if not site.fit:
        return Readiness(Tone.WARN, "Sold in spite of its checks", checks)
    if wrong:
        return Readiness(Tone.WARN, f"{wrong} of {len(checks)} not as they should be", checks)
    return Readiness(Tone.OK, "Fit to be sold", checks)


def sites_shown(sites: Iterable[Site], pools: Sequence[PoolShown]) -> list[SiteShown]:
    """Those in trouble first; one query, for the nodes, also those without GPUs."""
    counted = Node.objects.values("site").order_by().annotate(nodes=Count("name", distinct=True))
    nodes = dict(counted.values_list("site", "nodes"))
    gpus: dict[Any, int] = {}
    for pool in pools:
        gpus[pool.pool.site_id] = gpus.get(pool.pool.site_id, 0) + pool.sums.capacity
    shown = [site_shown(site, nodes=nodes.get(site.pk, 0), gpus=gpus.get(site.pk, 0)) for site in sites]
    return sorted(shown, key=lambda row: (WORST_FIRST.index(row.tone), row.site.slug))


def site_shown(site: Site, *, nodes: int = 0, gpus: int = 0) -> SiteShown:
    tone, word, text, remedy = _verdict(site)
    driver = DRIVERS.get(site.driver, site.driver)
    return SiteShown(site, tone, word, driver, text, remedy, nodes, gpus)


def _verdict(site: Site) -> tuple[Tone, str, str, str]:
    if not site.enabled:
        return Tone.OFF, "Disabled", "Nothing new is placed here; what runs goes on.", ""
    found = conditions_read(site.conditions)
    if not found:
        return Tone.WAIT, "Not probed yet", "The worker asks it within seconds.", ""
    bad = next((item for item in found if item.status is Status.FALSE), None)
    if bad is not None:
        silent = bad.type in {"Reachable", "Authorized"}
        tone, word = (Tone.BAD, "Not ready") if silent else (Tone.WARN, "Degraded")
        return tone, word, bad.message or words_of(bad.reason), bad.remedy
    if not site.takes_new:
        check = next((item for item in site_checks(site=site) if item.status is Status.FALSE), None)
        said = (
            (check.message or words_of(check.reason), check.remedy) if check else ("A check forbids it.", "")
        )
        return Tone.WARN, "Not sold", *said
    if any(item.status is Status.UNKNOWN for item in found):
        item = next(item for item in found if item.status is Status.UNKNOWN)
        return Tone.WARN, "Unknown", item.message or words_of(item.reason), item.remedy
    return Tone.OK, "Ready", "It answers and accepts the portal's credentials.", ""
