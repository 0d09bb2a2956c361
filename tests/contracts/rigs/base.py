"""What the suite asks of every site beside its driver."""

import contextlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import ClassVar, cast

from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import (
    AccessCapability,
    AdoptionCapability,
    Change,
    DriftCapability,
    Driver,
    EnvironmentSpec,
    GpuAmount,
    JobSpec,
    Member,
    MetricsCapability,
    NodeCheckCapability,
    PreflightCapability,
    StepOutcome,
    UsageCapability,
    WardenCapability,
    WorkspaceRef,
    WorkspaceSpec,
)
from tests.lab.fixtures import until

ALICE = Member(subject="u-alice", name="alice", role="admin")
BOB = Member(subject="u-bob", name="bob", role="edit")
CHARLIE = Member(subject="u-charlie", name="charlie", role="view")


class Refused(Exception):
    """The site said no to the tenant, in these words."""


class Complete(
    Driver,
    AccessCapability,
    UsageCapability,
    WardenCapability,
    DriftCapability,
    PreflightCapability,
    MetricsCapability,
    NodeCheckCapability,
    AdoptionCapability,
):
    """For the type checker: a test names the capability that it NEEDS, and runs for the drivers that have it."""


class Rig(ABC):
    """A driver, its site, and tenants with the credentials that the driver gave them."""

    # the site's own words: a refusal beyond what was bought, one that runs, the step that writes the limits, a place of its own
    over = "exceeded quota"
    running = "Running"
    limits_step = "quota"
    sites_own_name = "kube-system"
    # as whom the site's administrator is told to have changed something; "" where the site does not know
    changed_by = "kubectl-edit"
    one_limit_each = False  # a quota is one row that is changed, not one object of several
    # for how long at most a consumer holds its devices before it runs and after it was ended
    build_seconds = 0
    # of preflight: what keeps the limits, and what tells of storage
    checks: ClassVar[set[str]] = {"ApiVersion", "Permissions", "QuotaController", "Guards"}
    storage_check = "DefaultStorageClass"

    def __init__(self, driver: Driver, *, gpu: GpuAmount, unsold: str) -> None:
        self.driver = cast("Complete", driver)
        self.gpu = gpu
        self.unsold = unsold
        self._credentials: dict[tuple[str, str], str] = {}

    def spec(self, *, gpus: int = 2, members: tuple[Member, ...] = (ALICE, BOB)) -> WorkspaceSpec:
        made = uuid.uuid4()
        return WorkspaceSpec(
            id=made,
            external_name=f"gpu-{short(made)}-contract",
            project_slug=f"weather-{short(made)}",  # on OpenShift a wall around each project
            organization_slug="climate",
            gpus=(replace(self.gpu, count=gpus),),
            vcpus=32,
            memory_gib=128,
            storage_gib=10,
            members=members,
            closed=(self.unsold,),
        )

    def resized(self, spec: WorkspaceSpec, gpus: int) -> WorkspaceSpec:
        return replace(spec, gpus=(replace(self.gpu, count=gpus),))

    def credential(self, spec: WorkspaceSpec, member: Member = ALICE) -> str:
        """Asked for once and kept, as people keep theirs."""
        key = (spec.external_name, member.subject)
        if key not in self._credentials:
            access = self.driver.issue_access(ref(spec), member, lifetime=timedelta(hours=1))
            self._credentials[key] = access.document
        return self._credentials[key]

    def forget(self, spec: WorkspaceSpec, member: Member) -> None:
        """The next one is asked for anew."""
        self._credentials.pop((spec.external_name, member.subject), None)

    def start(
        self,
        spec: WorkspaceSpec,
        name: str,
        *,
        gpus: int = 1,
        run_seconds: int | None = None,
        resource: str = "",
        member: Member = ALICE,
    ) -> None:
        with refusals():
            self._start(
                spec,
                name,
                self.credential(spec, member),
                resource or self.gpu.resource_name,
                gpus,
                run_seconds,
            )

    @abstractmethod
    def _start(
        self,
        spec: WorkspaceSpec,
        name: str,
        credential: str,
        resource: str,
        gpus: int,
        run_seconds: int | None,
    ) -> None: ...

    @abstractmethod
    def own(self, spec: WorkspaceSpec, kind: str, name: str, *, gpus: int = 1) -> None:
        """The tenant makes what comes back when it is lost: a Deployment or a Job of one pod, a machine."""

    @abstractmethod
    def keep(self, spec: WorkspaceSpec) -> None:
        """The tenant leaves data there."""

    @abstractmethod
    def kept(self, spec: WorkspaceSpec) -> bool:
        """Whether that data is there still, read with the tenant's own credential."""

    def environment(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """As this site can run it."""
        return spec

    def home(self, spec: EnvironmentSpec) -> str:
        """What tells the home of an environment from any other; "" for none."""
        raise NotImplementedError

    def job(self, spec: JobSpec) -> JobSpec:
        """As this site can run it."""
        return spec

    @abstractmethod
    def stop(self, spec: WorkspaceSpec, name: str) -> None: ...

    @abstractmethod
    def empty(self, spec: WorkspaceSpec) -> None:
        """Ends all that runs in it; returns when nothing is counted any more, so that the next test has it as it was made."""

    @abstractmethod
    def loosen(self, spec: WorkspaceSpec, gpus: int) -> None:
        """The site's own administrator allows another number of GPUs, behind the portal's back."""

    @abstractmethod
    def foreign(self, name: str) -> None:
        """Somebody else makes a namespace or project of this name."""

    @abstractmethod
    def foreign_start(self, namespace: str, name: str, *, gpus: int) -> None:
        """Somebody else starts a pod or machine in their own; returns when it runs."""

    @abstractmethod
    def foreign_quota(self, namespace: str, *, gpus: int) -> None:
        """Somebody else has a quota of their own there."""

    @abstractmethod
    def sites_own(self) -> None:
        """The site has `sites_own_name` for itself."""

    @abstractmethod
    def uids(self, namespace: str) -> list[str]:
        """Of the pods or machines there, whosever they are."""

    @abstractmethod
    def namespaces(self, name: str) -> int:
        """How many namespaces or projects of this name the site has, whosever they are."""

    @abstractmethod
    def unreachable(self) -> Driver:
        """A driver whose site does not answer."""

    @abstractmethod
    def clean_up(self) -> None: ...


def ref(spec: WorkspaceSpec) -> WorkspaceRef:
    return spec.ref


def ensure_step(driver: Driver, spec: WorkspaceSpec, key: str) -> None:
    """Asks until it is done, as the reconciler does."""
    until(lambda: _done(partial(driver.perform, Change.CREATE), spec, key), f"step {key} of its creation")


def release_step(driver: Driver, spec: WorkspaceSpec, key: str) -> None:
    until(lambda: _done(partial(driver.perform, Change.DELETE), spec, key), f"step {key} of its deletion")


def adopt(driver: AdoptionCapability, spec: WorkspaceSpec) -> None:
    until(lambda: _done(lambda spec, _: driver.adopt(spec), spec, ""), "it is taken over")


def _done(verb: Callable[[WorkspaceSpec, str], StepOutcome], spec: WorkspaceSpec, key: str) -> bool:
    """A site that is busy with others is asked again."""
    with contextlib.suppress(Unavailable):
        return verb(spec, key).done
    return False


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except Unavailable:
        raise
    except GpuaasError as error:
        raise Refused(error.message) from error
