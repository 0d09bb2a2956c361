"""A template of jobs as its pages show it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from frontend import formats
from frontend.components import Fact
from frontend.forms.job_templates import LABELS
from gpuaas.jobs.models import JobTemplate


@dataclass(frozen=True)
class Row:
    """One line of the list."""

    pk: UUID
    name: str
    description: str
    image: str
    locked: str
    created_by: str
    created_at: datetime
    urls: dict[str, str]


def row_of(row: JobTemplate) -> Row:
    return Row(
        pk=row.pk,
        name=row.name,
        description=row.description,
        image=row.order.get("image", ""),
        locked=_locked_of(row),
        created_by=row.created_by.username,
        created_at=row.created_at,
        urls=urls_of(row),
    )


def facts_of(row: JobTemplate) -> list[Fact]:
    return [
        Fact("Locked fields", _locked_of(row) or "none"),
        Fact("Added", f"{formats.when(row.created_at)} by {row.created_by.username}"),
    ]


def urls_of(row: JobTemplate) -> dict[str, str]:
    at = [row.project.slug]
    urls = {name: reverse(f"frontend:job_template_{name}", args=[*at, row.pk]) for name in ("edit", "delete")}
    urls["page"] = reverse("frontend:job_template", args=[*at, row.pk])
    return {**urls, "submit": f"{reverse('frontend:job_new', args=at)}?template={row.name}"}


def _locked_of(row: JobTemplate) -> str:
    return ", ".join(LABELS[name] for name in row.locked)
