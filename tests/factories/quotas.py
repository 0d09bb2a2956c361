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
    for resource, amount in hard.items():
        _give(project, resource, amount)
        if organization:
            _give(project.organization, resource, amount)


def _give(owner: Project | Organization, resource: str, amount: int | None) -> None:
    if isinstance(owner, Project):
        Limit.objects.update_or_create(project=owner, resource=resource, defaults={"hard": amount})
    else:
        Limit.objects.update_or_create(organization=owner, resource=resource, defaults={"hard": amount})


def counters_must_match() -> None:
    assert counters_mismatches() == []
