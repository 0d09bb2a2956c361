"""What happens in workspaces that borrow their GPUs once a buyer needs them, in the words that all kinds share."""

from datetime import datetime
from typing import Final

from gpuaas.core.conditions import Status
from gpuaas.lifecycle.kind import ConditionChange

KEPT: Final = "GpusKept"  # the condition of what a buyer has once pushed out
TIME: Final = "%Y-%m-%d %H:%M:%S UTC"


def preempted_words(at: datetime) -> str:
    return f"it was preempted at {at:{TIME}}: its GPUs are borrowed, and somebody who bought them needed them"


def preempted(at: datetime, then: str) -> ConditionChange:
    """then: what becomes of it, as the end of the sentence."""
    return _condition(Status.FALSE, "Preempted", f"{preempted_words(at)}; {then}")


def runs_again(at: datetime, times: int) -> ConditionChange:
    often = "" if times == 1 else f"; it has been so {times:,} times"
    return _condition(Status.TRUE, "RunsAgain", f"it runs again; {preempted_words(at)}{often}")


def _condition(status: Status, reason: str, message: str) -> ConditionChange:
    return {"type": KEPT, "status": status, "reason": reason, "message": message}
