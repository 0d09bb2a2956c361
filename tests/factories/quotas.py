"""Limits for tests, and the one question every test of admission ends with."""

from collections.abc import Mapping

from quotas.models import Limit
from quotas.selectors import counters_mismatches
from tenants.models import Organization, Project

GENEROUS = {
    "gpu:h100-sxm-80gb": 16,
    "gpu:l40s-48gb": 8,
    "vcpu": 10_000,
    "memory": 100_000,
    "storage": 100_000,
}


def limits_give(
    project: Project, limits: Mapping[str, int | None] | None = None, *, organization: bool = True
) -> None:
    """The generous limits, with `limits` instead where given; the organization gets the same."""
    hard: dict[str, int | None] = {**GENEROUS, **(limits or {})}
    _give("project", project, hard)
    if organization:
        _give("organization", project.organization, hard)


def _give(scope: str, owner: Project | Organization, hard: Mapping[str, int | None]) -> None:
    Limit.objects.bulk_create(
        [Limit(**{scope: owner}, resource=resource, hard=amount) for resource, amount in hard.items()],
        update_conflicts=True,
        unique_fields=[scope, "resource"],
        update_fields=["hard"],
    )


def counters_must_match() -> None:
    assert counters_mismatches() == []
