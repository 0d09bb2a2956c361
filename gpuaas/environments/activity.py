"""What an environment tells of its own use, by the API that its kind names: asked of its pod, the way that the door goes.

What answers is a tenant's program: it is believed about use alone.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuaas.core.errors import Unavailable
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment
from gpuaas.environments.pod import NONSENSE, asker

RESTING = frozenset({"idle", "dead"})
QUIET = "?no_track_activity=1"  # what Jupyter then does not take for use itself
Ask = Callable[[str], Any]


@dataclass(frozen=True)
class Told:
    """at: of its last use, None where it does not tell. using: what uses it at this moment, in words; "" = nothing."""

    at: datetime | None = None
    using: str = ""


def told_by(row: Environment) -> Told:
    """Calls the site, unless the kind names no API. Needs what `spec_of` needs. Raises the errors of the site, and Unavailable
    where it does not answer, or not as that API does."""
    read = READERS.get(definition_read(row.made_of.document).activity)
    if read is None:
        return Told()
    ask = asker(row)
    try:
        return read(lambda path: json.loads(ask(path)))
    except NONSENSE as error:
        raise Unavailable("its API does not answer as it should") from error


def jupyter(ask: Ask) -> Told:
    """A kernel that computes is use, and one that somebody looks at; else what its server counts as the last activity, with
    that of terminals."""
    kernels, status = ask(f"/api/kernels{QUIET}"), ask(f"/api/status{QUIET}")
    told = datetime.fromisoformat(status["last_activity"])
    if told.tzinfo is None:
        raise ValueError("a time without a zone")
    at = told.astimezone(UTC)  # in which people are told of it
    if any(each["execution_state"] not in RESTING for each in kernels):
        return Told(at, "a kernel is busy")
    if any(each.get("connections", 0) for each in kernels):
        return Told(at, "somebody is connected to a kernel")
    return Told(at)


def code_server(ask: Ask) -> Told:
    """Its heart beats once a minute as long as an editor is open."""
    return Told(datetime.fromtimestamp(ask("/healthz")["lastHeartbeat"] / 1000, UTC))


READERS: Mapping[str, Callable[[Ask], Told]] = {"jupyter": jupyter, "code-server": code_server}
