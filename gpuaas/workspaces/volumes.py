"""The volumes of a project, as the sites of its workspaces were last observed. No site is asked."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models.fields.json import KT, KeyTransform

from gpuaas.catalog.models import StorageClass
from gpuaas.workspaces.models import WorkspaceStorage
from gpuaas.workspaces.selectors import workspaces_seen
from gpuaas.workspaces.states import LIVE
from tenants.actors import Actor
from tenants.models import Project


@dataclass(frozen=True)
class Volume:
    """A claim of a workspace. storage_class: by the site's name, "" where it names none; sold_as: its short name, "" for plain
    storage. charged: its workspace bought storage of that class."""

    workspace_id: uuid.UUID
    workspace: str
    site: str
    name: str
    gib: int
    storage_class: str
    sold_as: str
    charged: bool
    bound: bool
    created_at: datetime
    observed_at: datetime
    uid: str

    @property
    def key(self) -> str:
        """Unique in a project, in the order of lists."""
        return f"{self.workspace} {self.name} {self.uid} {self.workspace_id}"


def volumes_for(*, actor: Actor, project: Project) -> list[Volume]:
    """By workspace and name, of the workspaces that the actor may see. Three queries."""
    rows = list(
        workspaces_seen(actor=actor, project=project)
        .filter(state__in=LIVE, observed__has_key="volumes")
        .order_by("name", "pk")
        .values_list(
            "pk", "name", "site", "site__slug", KT("observed__at"), KeyTransform("volumes", "observed")
        )
    )
    classes = {
        (row.site_id, row.name): row
        for row in StorageClass.objects.filter(site__in={site for _, _, site, *_ in rows})
    }
    bought = set(
        WorkspaceStorage.objects.filter(workspace__in=[pk for pk, *_ in rows], confirmed__gt=0)
        .order_by()
        .values_list("workspace", "storage_class")
    )
    return [
        _volume(pk, name, slug, at, found, classes.get((site, found["storage_class"])), bought)
        for pk, name, site, slug, at, volumes in rows
        for found in volumes
    ]


def _volume(
    pk: uuid.UUID,
    name: str,
    site: str,
    at: str,
    found: dict[str, Any],
    known: StorageClass | None,
    bought: set[tuple[uuid.UUID, uuid.UUID]],
) -> Volume:
    by_name = known is not None and (pk, known.pk) in bought
    return Volume(
        workspace_id=pk,
        workspace=name,
        site=site,
        name=found["name"],
        gib=found["gib"],
        storage_class=found["storage_class"],
        sold_as=known.slug if known is not None and by_name else "",
        charged=by_name or known is None or known.plain,
        bound=found["bound"],
        created_at=datetime.fromisoformat(found["created_at"]),
        observed_at=datetime.fromisoformat(at),
        uid=found.get("uid", ""),  # looks from before have none
    )
