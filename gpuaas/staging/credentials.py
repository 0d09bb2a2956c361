"""With what movers reach servers. The room above that keeps it, sealed, makes itself known here."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuaas.staging.rclone import Transfer


@dataclass(frozen=True)
class Keeper:
    """Of a project: the names of its credentials; and those that transfers name, as fields for rclone with what is secret."""

    names: Callable[[uuid.UUID], frozenset[str]]
    remotes: Callable[[uuid.UUID, Iterable[Transfer]], Mapping[str, Mapping[str, str]]]


KEEPERS: list[Keeper] = []


def credential_names(project_id: uuid.UUID) -> frozenset[str]:
    return frozenset(name for each in KEEPERS for name in each.names(project_id))


def remotes_of(project_id: uuid.UUID, transfers: Iterable[Transfer]) -> dict[str, Mapping[str, str]]:
    return {name: each for keeper in KEEPERS for name, each in keeper.remotes(project_id, transfers).items()}
