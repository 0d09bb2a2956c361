"""Sites as lists and pages show them: one tone and one sentence from many conditions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count

from frontend import formats
from frontend.presenters.held import words_of
from gpuaas.catalog.models import Node, Site
from gpuaas.catalog.selectors import cards_by_site, site_checks
from gpuaas.core.conditions import Condition, Status, conditions_read
from gpuaas.core.looks import Tone
from gpuaas.providers.registry import kind_or_missing

WORST_FIRST = (Tone.BAD, Tone.WARN, Tone.WAIT, Tone.OFF, Tone.OK)


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
    gpus: int | Decimal

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
    """`Kubernetes 1.36.3`; a version that already names its product is shown alone."""
    driver, version = kind_or_missing(site.driver).label, site.server_version
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
        return Readiness(Tone.WAIT, "Unknown", checks)
    wrong = sum(check.tone is not Tone.OK for check in checks)
    if not site.takes_new and site.enabled:
        return Readiness(Tone.BAD, "Nothing new is sold here", checks)
    if not site.fit:
        return Readiness(Tone.WARN, "Sold despite failed checks", checks)
    if wrong:
        return Readiness(Tone.WARN, f"{wrong} of {len(checks)} checks failed", checks)
    return Readiness(Tone.OK, "Ready to be sold", checks)


def sites_shown(sites: Iterable[Site]) -> list[SiteShown]:
    """Those in trouble first; two queries: for the nodes, also those without GPUs, and for the GPUs."""
    counted = Node.objects.values("site").order_by().annotate(nodes=Count("name", distinct=True))
    nodes = dict(counted.values_list("site", "nodes"))
    gpus = cards_by_site()
    shown = [
        site_shown(site, nodes=nodes.get(site.pk, 0), gpus=gpus.get(site.pk, Decimal(0))) for site in sites
    ]
    return sorted(shown, key=lambda row: (WORST_FIRST.index(row.tone), row.site.slug))


def site_shown(site: Site, *, nodes: int, gpus: int | Decimal) -> SiteShown:
    tone, word, text, remedy = _verdict(site)
    driver = kind_or_missing(site.driver).label
    return SiteShown(site, tone, word, driver, text, remedy, nodes, gpus)


def _verdict(site: Site) -> tuple[Tone, str, str, str]:
    if not site.enabled:
        return Tone.OFF, "Disabled", "Nothing new is placed here; what runs keeps running.", ""
    found = conditions_read(site.conditions)
    wrong = [item for item in found if item.status is Status.FALSE]
    bad = min(wrong, key=lambda item: item.type == "Confirmed", default=None)
    if bad is not None and bad.type == "Confirmed":
        return Tone.WARN, "Unconfirmed", bad.message, bad.remedy
    if bad is not None and site.reached_at is None:
        return Tone.BAD, "Never reached", bad.message or words_of(bad.reason), bad.remedy
    if not found:
        return Tone.WAIT, "Not checked yet", "A worker contacts it within seconds.", ""
    if bad is not None:
        silent = bad.type in {"Reachable", "Authorized"}
        tone, word = (Tone.BAD, "Not ready") if silent else (Tone.WARN, "Degraded")
        return tone, word, bad.message or words_of(bad.reason), bad.remedy
    if not site.takes_new:
        check = next((item for item in site_checks(site=site) if item.status is Status.FALSE), None)
        reason = (check.message or words_of(check.reason), check.remedy) if check else ("A check failed.", "")
        return Tone.WARN, "Not sold", *reason
    if any(item.status is Status.UNKNOWN for item in found):
        item = next(item for item in found if item.status is Status.UNKNOWN)
        return Tone.WARN, "Unknown", item.message or words_of(item.reason), item.remedy
    return Tone.OK, "Ready", "The site answers and accepts the portal's credentials.", ""
