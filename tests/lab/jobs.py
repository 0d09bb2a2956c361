"""What tests of jobs at a site wait for."""

from collections.abc import Callable

from gpuaas.providers.base import JobPhase, Jobs, JobSpec, ObservedJob
from tests.lab.fixtures import until


def seen(site: Jobs, spec: JobSpec, wanted: Callable[[ObservedJob], bool], what: str) -> ObservedJob:
    """The first observation that is `wanted`; a failure says what was observed last."""
    found: list[ObservedJob] = []

    def look() -> bool:
        found[:] = [site.observe(spec)]
        return wanted(found[0])

    until(look, lambda: f"{what}; it was last observed as {found}")
    return found[0]


def seen_as(site: Jobs, spec: JobSpec, phase: JobPhase) -> ObservedJob:
    return seen(site, spec, lambda each: each.phase is phase, f"it is {phase}")
