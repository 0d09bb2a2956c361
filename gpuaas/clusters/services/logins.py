"""Logins on the machines of Slurm clusters: given once, and carried to each head in the answer to its report."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Max

from gpuaas.clusters.logins import UIDS, login_name
from gpuaas.clusters.models import Cluster, ClusterLogin
from gpuaas.clusters.selectors import logins_admitted, logins_lacking, logins_of
from gpuaas.providers.base import ClusterKind
from tenants.models import Project, User


@dataclass(frozen=True)
class LoginOrder:
    """admitted: whether the person may enter now. Nobody who was ever admitted is left out."""

    name: str
    uid: int
    admitted: bool


@dataclass(frozen=True)
class LoginOrders:
    """For the head of a Slurm cluster. account: of Slurm's accounting, for the project; "" = nobody's yet."""

    account: str
    logins: tuple[LoginOrder, ...]


def has_logins(cluster: Cluster) -> bool:
    return cluster.template_version.template.kind == ClusterKind.SLURM


def login_orders(cluster: Cluster) -> LoginOrders | None:
    """Whom the head is to let in, as memberships are now; members without a login get one. None for clusters that
    have no logins. A cluster in a warm pool lets nobody in: the names are those of the project that claims it."""
    if not has_logins(cluster):
        return None
    if cluster.is_waiting:
        return LoginOrders("", ())
    project = cluster.project
    if logins_lacking(project_id=project.pk).exists():
        _give(project)
    rows = list(logins_of(project_id=project.pk))
    admitted = logins_admitted(project_id=project.pk)
    logins = tuple(LoginOrder(row.name, row.uid, row.pk in admitted) for row in rows)
    return LoginOrders(_account(project), logins)


def logins_record(cluster: Cluster, names: Collection[str]) -> frozenset[uuid.UUID]:
    """What a head has reported: whom it lets in; returns the people. Other names are ignored."""
    rows = ClusterLogin.objects.filter(project=cluster.project_id, name__in=names)
    inside = dict(rows.values_list("name", "user"))
    known = sorted(inside)
    if cluster.logins != known:
        Cluster.objects.filter(pk=cluster.pk).update(logins=known)
    return frozenset(inside.values())


@transaction.atomic
def login_of(*, project: Project, user_id: uuid.UUID) -> ClusterLogin:
    """The person's, given now if there is none. The caller has checked the right to enter."""
    row = ClusterLogin.objects.filter(project=project, user=user_id).first()
    if row is not None:
        return row
    _lock(project)
    return ClusterLogin.objects.filter(project=project, user=user_id).first() or _create(
        project, User.objects.get(pk=user_id)
    )


@transaction.atomic
def _give(project: Project) -> None:
    """Two heads of one project may report at once."""
    _lock(project)
    for user in logins_lacking(project_id=project.pk):
        _create(project, user)


def _lock(project: Project) -> None:
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def _create(project: Project, user: User) -> ClusterLogin:
    rows = ClusterLogin.objects.filter(project=project)
    last = rows.aggregate(last=Max("uid"))["last"]
    name = login_name(user.username, set(rows.values_list("name", flat=True)))
    uid = UIDS if last is None else last + 1
    return ClusterLogin.objects.create(project=project, user=user, name=name, uid=uid)


def _account(project: Project) -> str:
    """Slurm has an account `root` of its own."""
    return "root-project" if project.slug == "root" else project.slug
