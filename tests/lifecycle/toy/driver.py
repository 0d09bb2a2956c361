"""A desk that holds notebooks, in memory; and its one capability: the address of an open one."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change, Provisioner, StepOutcome, StepSpec


class NotebookSpec(NamedTuple):
    name: str
    vcpus: int


LIMITS: dict[str, int] = {}  # vCPUs by notebook
OPENED: set[str] = set()  # those that run
REFUSALS: list[GpuaasError] = []  # what the next calls are answered with
LIMIT, OPEN = StepSpec("limit", "Set the limit"), StepSpec("open", "Open it")
CLOSE, CLEAR = StepSpec("close", "Close it"), StepSpec("clear", "Clear the desk")
PROOF = StepSpec("proof", "See that nothing is left")
STEPS = {
    Change.CREATE: (LIMIT, OPEN),
    Change.SUSPEND: (CLOSE,),
    Change.RESUME: (OPEN,),
    Change.DELETE: (CLOSE, CLEAR, PROOF),
}


class AddressCapability(ABC):
    @abstractmethod
    def address(self, spec: NotebookSpec) -> str:
        """Where its people reach it; "" while it is closed."""


class DeskDriver(Provisioner[NotebookSpec], AddressCapability):
    name, changes = "desk", STEPS

    def steps(self, change: Change, spec: NotebookSpec) -> tuple[StepSpec, ...]:
        return STEPS[change]

    def perform(self, change: Change, spec: NotebookSpec, step: str) -> StepOutcome:
        if REFUSALS:
            raise REFUSALS.pop()
        if step == "limit":
            LIMITS[spec.name] = spec.vcpus
        elif step == "clear":
            LIMITS.pop(spec.name, None)
        elif step != "proof":
            (OPENED.add if step == "open" else OPENED.discard)(spec.name)
        return StepOutcome(step != "proof" or not self.exists(spec), f"{len(LIMITS)} on the desk")

    def exists(self, spec: NotebookSpec) -> bool:
        return spec.name in LIMITS

    def address(self, spec: NotebookSpec) -> str:
        return f"https://desk.example/{spec.name}" if spec.name in OPENED else ""
