"""What environments and jobs share: the namespace that they are in, and how a step is done there."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, TypeVar

from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Change, EnvironmentSpec, JobSpec, StepOutcome, StepSpec, step_require
from gpuaas.providers.base.steps import Provisioner
from gpuaas.providers.sandbox.dials import call, site_write
from gpuaas.providers.sandbox.models import SandboxNamespace, SandboxSite
from gpuaas.providers.sandbox.simulation import advance

SpecT = TypeVar("SpecT", EnvironmentSpec, JobSpec)


class Inside(Provisioner[SpecT]):
    """changes: with their steps. Where the namespace is gone, those of a deletion have nothing to do."""

    name = "sandbox"
    noun: ClassVar[str]
    changes: ClassVar[Mapping[Change, tuple[StepSpec, ...]]]

    def steps(self, change: Change, spec: SpecT) -> tuple[StepSpec, ...]:
        del spec
        return self.changes[change]

    def perform(self, change: Change, spec: SpecT, step: str) -> StepOutcome:
        deeds = self.deeds()
        do = step_require({each.key: deeds[each] for each in self.changes[change]}, step)
        with self.place(f"{change}:{step}", spec) as (site, room):
            if room is not None:
                return do(site, room, spec)
        if step in {each.key for each in self.changes[Change.DELETE]}:
            return StepOutcome(done=True, detail="nothing of it is at the site")
        raise NotFound(f"{spec.workspace.external_name} is not at the site")

    @abstractmethod
    def deeds(self) -> Mapping[StepSpec, Callable[[SandboxSite, SandboxNamespace, SpecT], StepOutcome]]:
        """What each step does in the namespace."""

    @contextmanager
    def place(self, verb: str, spec: SpecT) -> Iterator[tuple[SandboxSite, SandboxNamespace | None]]:
        """The site as it is by now, and the namespace of the workspace while it stays."""
        ref = spec.workspace
        with call(self.connection, f"{self.noun}-{verb}"), site_write(self.connection.site_id) as site:
            advance(site, now=clock.now())
            rooms = SandboxNamespace.objects.filter(
                site=site, name=ref.external_name, owner=ref.id, gone_at=None
            )
            yield site, rooms.first()


def preempted_by(room: SandboxNamespace, name: str) -> str:
    """Of a pod that was told to end for a buyer: its name and when, "" of any other."""
    return f"{name} {at}" if (at := room.preempted.get(name)) else ""


def preempted_take(room: SandboxNamespace, name: str) -> str:
    """The same, once: its owner makes it anew."""
    room.refresh_from_db(fields=["preempted"])
    found = preempted_by(room, name)
    if found:
        room.preempted = {key: at for key, at in room.preempted.items() if key != name}
        room.save(update_fields=["preempted"])
    return found


def claim_missing(room: SandboxNamespace, spec: JobSpec) -> str:
    """The first of a job's volumes that is not there."""
    found = room.claims.filter(name__in=spec.volumes).values_list("name", flat=True) if spec.volumes else ()
    return next((name for name in spec.volumes if name not in set(found)), "")
