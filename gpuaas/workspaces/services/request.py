"""Requesting a workspace: validate, reserve, record; the reconciler does the rest."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.db import IntegrityError, transaction

from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden
from gpuaas.core.ids import uuid7
from gpuaas.lifecycle.lease import lease_validate
from gpuaas.providers.base import Change, StepSpec
from gpuaas.workspaces.amounts import StorageItem, amounts_of, storage_sum, words_of
from gpuaas.workspaces.models import (
    Workspace,
    WorkspaceFlavor,
    WorkspaceMember,
    WorkspaceStorage,
    WorkspaceTransition,
)
from gpuaas.workspaces.services.rows import HOLDER, WORKSPACE, operation_start, workspace_wake
from gpuaas.workspaces.services.validation import (
    FlavorItem,
    items_resolve,
    members_resolve,
    name_validate,
    placement_validate,
    storage_resolve,
    storage_validate,
)
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import AccessRole, OperationKind, WorkspaceState
from quotas.selectors import admission_preview
from quotas.services import reservation_reserve
from tenants.actors import Actor
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import project_require


def workspace_request(
    *,
    actor: Actor,
    project: Project,
    name: str,
    items: Sequence[tuple[str, int]],
    storage_gib: int = 0,
    storage_classes: Sequence[tuple[str, int]] = (),
    lease_ends_at: datetime | None = None,
    members: Sequence[tuple[str, str]] | None = None,
    placement: str = "",
) -> Workspace:
    """Accepts and reserves, or changes nothing. `items` = (flavor slug, count); `members` = (username, role); `storage_classes` =
    (short name, GiB), beside `storage_gib` of plain storage. `placement`: how close together its pods are placed if there
    is room (`Placement`). Without `members` the requester is its admin. Raises Invalid, QuotaRefused, NoCapacity, Conflict
    (name in use).
    """
    project_require(actor=actor, project=project, permission=Permission.WORKSPACE_CREATE)
    requester = requester_of(actor)
    moment = clock.now()
    workspace = Workspace(
        id=uuid7(),
        project=project,
        name=name_validate(name),
        storage_gib=storage_validate(storage_gib),
        lease_ends_at=lease_validate(lease_ends_at, now=moment),
        created_by=requester,
        created_at=moment,
        due_at=moment,
    )
    flavors = items_resolve(items)
    workspace.site, workspace.notice_seconds = flavors[0][0].pool.site, flavors[0][0].notice_seconds
    workspace.placement = placement_validate(placement, site=workspace.site)
    classes = storage_resolve(storage_classes, site=workspace.site)
    refuse_hopeless(workspace, flavors, classes)
    people = [(requester, AccessRole.ADMIN)] if members is None else members_resolve(members, project=project)
    with name_taken(workspace, flavors, classes), transaction.atomic():
        _audit(actor, workspace, flavors, people, classes)
        workspace_open(actor, workspace, flavors, people, storage=classes)
    return workspace


def refuse_hopeless(
    workspace: Workspace, flavors: list[FlavorItem], storage: Sequence[StorageItem] = ()
) -> None:
    """Refuses what already exceeds a limit before anything is written; concurrent requests are decided by the
    reservation."""
    amounts = amounts_of(flavors, storage_gib=storage_sum(workspace.storage_gib, storage))
    admission_preview(project=workspace.project, site=workspace.site, amounts=amounts).refuse()


@contextmanager
def name_taken(
    workspace: Workspace, flavors: list[FlavorItem], storage: Sequence[StorageItem] = ()
) -> Iterator[None]:
    """The database decides which of two requests was first; the other one gets an error.

    The first may also have taken the last of a limit. That error comes before the one about the name, as for later
    requests.
    """
    try:
        yield
    except IntegrityError as error:
        refuse_hopeless(workspace, flavors, storage)
        if "workspace_adopted_once" in str(error):
            raise Conflict(f"{workspace.adopted_name} already belongs to another workspace") from error
        if "workspace_name_once_per_project" not in str(error):
            raise
        message = f"the project {workspace.project.slug} already has a workspace called {workspace.name}"
        raise Conflict(message, detail={"field": "name"}) from error


def requester_of(actor: Actor) -> User:
    if actor.user_id is None:
        raise Forbidden("only a person can request this")
    return User.objects.get(pk=actor.user_id)


def workspace_rows(
    workspace: Workspace, flavors: Sequence[FlavorItem], people: Sequence[tuple[User, AccessRole]]
) -> None:
    workspace.save(force_insert=True)
    WorkspaceFlavor.objects.bulk_create(
        WorkspaceFlavor(workspace=workspace, flavor=flavor, count=count) for flavor, count in flavors
    )
    WorkspaceMember.objects.bulk_create(
        WorkspaceMember(workspace=workspace, user=user, role=role) for user, role in people
    )


def workspace_open(
    actor: Actor,
    workspace: Workspace,
    flavors: Sequence[FlavorItem],
    people: Sequence[tuple[User, AccessRole]],
    *,
    kind: OperationKind = OperationKind.CREATE,
    first: Sequence[StepSpec] = (),
    storage: Sequence[StorageItem] = (),
) -> None:
    """Writes it with its first operation, whose steps are `first` and those of a creation, and reserves.

    Reserves last: requests compete for the counters, so they are locked for the shortest time.
    """
    workspace_rows(workspace, flavors, people)
    WorkspaceStorage.objects.bulk_create(
        WorkspaceStorage(workspace=workspace, storage_class=storage_class, gib=gib)
        for storage_class, gib in storage
    )
    WorkspaceTransition.objects.create(
        subject=workspace, old="", new=WorkspaceState.REQUESTED, actor=actor.name
    )
    words = words_of(flavors, storage_gib=workspace.storage_gib, storage=storage)
    operation_start(
        workspace,
        kind,
        actor,
        steps=[*first, *driver_of(workspace.site).steps(Change.CREATE)],
        summary=words,
        admission=f"reserved {words}",
    )
    workspace_wake(workspace)
    reservation_reserve(
        holder_kind=HOLDER,
        holder_id=workspace.pk,
        project=workspace.project,
        site=workspace.site,
        amounts=amounts_of(flavors, storage_gib=storage_sum(workspace.storage_gib, storage)),
    )


def _audit(
    actor: Actor,
    workspace: Workspace,
    flavors: list[FlavorItem],
    people: list[tuple[User, AccessRole]],
    storage: list[StorageItem],
) -> None:
    WORKSPACE.audit(
        workspace,
        actor,
        "request",
        after={
            "items": {flavor.slug: count for flavor, count in flavors},
            "storage_gib": workspace.storage_gib,
            "storage_classes": {storage_class.slug: gib for storage_class, gib in storage},
            "lease_ends_at": workspace.lease_ends_at.isoformat(),
            "placement": workspace.placement,
            "members": {user.username: str(role) for user, role in people},
        },
    )
