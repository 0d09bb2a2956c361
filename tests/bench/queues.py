"""1,000 Jobs in the queue of a workspace, admitted once it is let go, against the same Jobs under the same queue in a plain namespace.

Kueue is the real one, on a control plane of this bench's own. The plain namespace has no quota, the portal's guards leave it alone,
and its Jobs are submitted by an account that may edit in it. One after the other, in turn first. A workspace takes as many Jobs only
where an operator has raised the bounds of its site (`object_bounds`), as here. Of 1,000 GPUs the nodes have 16: most of what is
admitted waits for a node, on both sides.

`lists` has no jobs, so the portal's list of them is here: it takes as many statements at 1,000 queued ones as at 50, and by the API
as many as tests/api/query_counts.json says.
"""

import statistics
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db import connection, transaction
from django.test import Client

from deploy.lab.kueue import Lab
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Connection, GpuAmount, WorkspaceSpec
from gpuaas.providers.kubeapi import bounds, manifests, queues
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import device_classes
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.providers.kubernetes.preflight.rights import site_role
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.bench.listed import FEW, Listed
from tests.bench.table import Measured
from tests.factories.catalog import SiteFactory
from tests.factories.tenants import OrganizationMembershipFactory, ProjectFactory, UserFactory
from tests.jobs.stage import row_in
from tests.lab.fixtures import in_the_end, until
from tests.lab.kueue.conftest import GPU, JOBS, job
from tests.providers.kubernetes.conftest import H100, kubeconfig, make_spec, provision
from tests.providers.kubernetes.fitness.conftest import account, with_token

COUNT, AT_ONCE, WARM, ROUNDS = 1_000, 8, 20, 2
OPTIONS = {bounds.OPTION: {"jobs": 2 * COUNT, "pods": 4 * COUNT, "running_pods": 2 * COUNT}}
PLAIN, RBAC = "bench-plain", "rbac.authorization.k8s.io"


def measure() -> list[Measured]:
    with _lab() as lab:
        admin = Api(lab.kubeconfig.read_text())
        spec = make_spec(gpus=(GpuAmount(GPU, COUNT, H100.selector),), vcpus=COUNT, memory_gib=COUNT)
        places = _warmed(_workspace(lab, admin, spec)), _warmed(_plain(lab, admin, spec))
        # what the machine does at first, and at last, is in both
        orders = [places if number % 2 else places[::-1] for number in range(ROUNDS)]
        taken = [{place: _round(place, COUNT) for place in order} for order in orders]
    ours, raw = ([each[place] for each in taken] for place in places)
    what = f"{COUNT:,} queued Jobs of a workspace"
    return [
        _rates(f"{what}, admitted", [each.admitted for each in ours], [each.admitted for each in raw]),
        _rates(f"{what}, submitted", [each.submitted for each in ours], [each.submitted for each in raw]),
        *_lists(),
    ]


def _rates(what: str, ours: list[float], raw: list[float]) -> Measured:
    rounds = ", ".join(f"{one:.0f} against {other:.0f}" for one, other in zip(ours, raw, strict=True))
    floor = "the same queue, no guards, no quota"
    return Measured(
        what, "/s", statistics.mean(ours), statistics.mean(raw), floor, note=f"a second, by round: {rounds}"
    )


# -- at the site ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A namespace with a LocalQueue, a ClusterQueue of its name, and the account of a member."""

    space: str
    admin: Api
    member: Api

    @property
    def jobs(self) -> str:
        return f"{JOBS}/namespaces/{self.space}/jobs"

    @property
    def workloads(self) -> str:
        return f"{queues.KUEUE}/namespaces/{self.space}/workloads"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.space}/pods"


@dataclass(frozen=True)
class Rates:
    """A second."""

    submitted: float
    admitted: float


@contextmanager
def _lab() -> Iterator[Lab]:
    with TemporaryDirectory() as folder:
        lab = Lab(state_dir=Path(folder) / "kueue")
        try:
            lab.up()
            yield lab
        finally:
            lab.down(purge=True)


def _warmed(place: Place) -> Place:
    until(partial(_takes, place), "a Job is taken")
    _round(place, WARM)  # pays for what a process does once
    return place


def _takes(place: Place) -> bool:
    """Rights and policies act a moment after they were written."""
    try:
        place.member.create(place.jobs, job("tried"), dryRun="All")
    except GpuaasError:
        return False
    return True


def _round(place: Place, count: int) -> Rates:
    """Nothing of it is left afterwards."""
    _stop(place, "Hold")
    until(partial(_is_held, place), "the queue is held")
    submitted = _submitted(place, count)
    until(lambda: _waiting(place) == count, f"{count} wait in the queue")
    rates = Rates(submitted, _admitted(place, count))
    in_the_end(partial(place.admin.delete, place.jobs, propagationPolicy="Background"))
    for path in (place.workloads, place.pods):
        until(partial(_is_empty, place, path), f"nothing is left at {path}")
    return rates


def _stop(place: Place, policy: str) -> None:
    place.admin.merge(f"{queues.CLUSTER_QUEUES}/{place.space}", {"spec": {"stopPolicy": policy}})


def _is_held(place: Place) -> bool:
    return _says(place.admin.get(f"{queues.CLUSTER_QUEUES}/{place.space}"), "Active") == "False"


def _is_empty(place: Place, path: str) -> bool:
    return not place.admin.get(path, limit="1")["items"]


def _waiting(place: Place) -> int:
    """Workloads that Kueue has looked at, and not admitted."""
    return sum(_says(each, "QuotaReserved") == "False" for each in place.admin.items(place.workloads))


def _says(found: Object, kind: str) -> str:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def _submitted(place: Place, count: int) -> float:
    """A second."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(lambda n: place.member.create(place.jobs, job(f"job-{n:04}")), range(count)))
    return count / (time.monotonic() - began)


def _admitted(place: Place, count: int) -> float:
    """A second, from the release of the queue until the last one was seen to be admitted."""
    version = place.admin.get(place.workloads, limit="1")["metadata"]["resourceVersion"]
    seen: set[str] = set()
    began = time.monotonic()
    _stop(place, "None")
    for event in place.admin.watch(place.workloads, version=version, seconds=600):
        if _says(event["object"], "Admitted") == "True":
            seen.add(event["object"]["metadata"]["name"])
        if len(seen) == count:
            return count / (time.monotonic() - began)
    raise SystemExit(f"{len(seen)} of {count} were admitted")


def _workspace(lab: Lab, admin: Api, spec: WorkspaceSpec) -> Place:
    """By the portal's account; alice submits."""
    credentials = {"kubeconfig": account(lab.cluster, site_role()).portal_kubeconfig}
    driver = KubernetesDriver(Connection(uuid.uuid4(), "bench", "", credentials, OPTIONS))
    provision(driver, spec)
    return Place(spec.external_name, admin, Api(kubeconfig(driver, spec)))


def _plain(lab: Lab, admin: Api, like: WorkspaceSpec) -> Place:
    """The same queue, and an account with Kubernetes' own right to edit."""
    spec = replace(like, id=uuid.uuid4(), external_name=PLAIN)
    space = f"/api/v1/namespaces/{PLAIN}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": PLAIN}})
    admin.create(f"{space}/serviceaccounts", {"metadata": {"name": "member"}})
    bound = {
        "metadata": {"name": "member"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "member", "namespace": PLAIN}],
    }
    admin.create(f"/apis/{RBAC}/v1/namespaces/{PLAIN}/rolebindings", bound)
    hard = manifests.quota(spec, device_classes(admin), bounds.hard(OPTIONS))["spec"]["hard"]
    for collection, body in queues.objects_of(spec, hard):
        admin.apply(collection, body)
    until(lambda: admin.find(f"{space}/serviceaccounts/default"), "the namespace takes pods")
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    token = admin.create(f"{space}/serviceaccounts/member/token", asked)["status"]["token"]
    return Place(PLAIN, admin, Api(with_token(lab.cluster, token)))


# -- at the portal -------------------------------------------------------------------------------------------------


def _lists() -> list[Measured]:
    """The short list and the long one belong to two projects, so that both are there at the same time."""
    user, site = UserFactory.create(username="bench-queues"), SiteFactory.create(slug="bench-queues")
    for slug, count in (("few", FEW), ("many", COUNT)):
        _queued(user, site, slug, count)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client = Client()
    client.force_login(user)
    return Listed("jobs", COUNT, "few", "many").measured(client)


@transaction.atomic
def _queued(user: User, site: Site, slug: str, count: int) -> None:
    project = ProjectFactory.create(slug=slug)
    OrganizationMembershipFactory.create(organization=project.organization, user=user, role="owner")
    now = clock.now()
    workspace = Workspace.objects.create(
        project=project,
        site=site,
        name="queued",
        state="ready",
        lease_ends_at=now + timedelta(days=1),
        created_by=user,
        created_at=now,
    )
    for number in range(count):
        row_in(workspace, f"queued-{number:04}")
