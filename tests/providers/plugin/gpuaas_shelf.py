"""A driver from outside: a shelf of eight GPUs, kept in memory. Written against `gpuaas.providers.base` alone."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.core.errors import Invalid, Permanent, Unauthorized
from gpuaas.providers.base import (
    Change,
    DeviceKind,
    Driver,
    DriverKind,
    Inventory,
    Nouns,
    ObservedNode,
    ObservedPool,
    ObservedWorkspace,
    StepOutcome,
    StepSpec,
    WorkspaceRef,
    WorkspaceSpec,
)

CARD = DeviceKind(slug="h100-sxm-80gb", name="H100 SXM 80 GB", product="H100", memory_gib=80, sharing="whole")
RESOURCE = "shelf.example/gpu"
SIZE = 8

KIND = DriverKind(
    name="shelf",
    label="Shelf",
    summary="Eight GPUs on a shelf.",
    site="gpuaas_shelf:ShelfDriver",
    nouns=Nouns(space="drawer", consumer="slot", node="board"),
    experimental="It forgets everything when the process ends.",
    credentials={
        "type": "object",
        "required": ["api_token"],
        "properties": {
            "api_token": {"type": "string", "title": "API token", "writeOnly": True},
            "person": {"type": "string", "title": "Person", "maxLength": 20},
        },
    },
    options={
        "type": "object",
        "properties": {
            "room": {"type": "string", "title": "Room", "description": "where the shelf stands"},
            "height": {"type": "integer", "title": "Height", "minimum": 1, "maximum": 9},
            "labels": {"type": "object", "title": "Labels", "additionalProperties": {"type": "string"}},
        },
    },
)


@dataclass
class Shelf:
    """Drawers by name, each with the GPUs that it may hold; `open`: whose members are let in."""

    drawers: dict[str, dict[str, int]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)


SHELVES: dict[uuid.UUID, Shelf] = {}
MAKE = (
    StepSpec("drawer", "Pull out a drawer"),
    StepSpec("limit", "Set the limit", safety=True),
    StepSpec("access", "Give the members access"),
)
CLEAR = (
    StepSpec("access", "Revoke everybody's access"),
    StepSpec("drawer", "Empty the drawer"),
    StepSpec("proof", "See that nothing is left"),
)


class ShelfDriver(Driver):
    name = "shelf"
    changes = {Change.CREATE: MAKE, Change.RESIZE: MAKE, Change.DELETE: CLEAR}

    @classmethod
    def credentials_check(cls, credentials: Mapping[str, Any]) -> None:
        if len(str(credentials["api_token"])) < 8:
            raise Invalid.field("credentials.api_token", "a token has at least 8 characters")

    @property
    def shelf(self) -> Shelf:
        if self.connection.credentials["api_token"] == "revoked-token":
            raise Unauthorized("the shelf does not know this token")
        return SHELVES.setdefault(self.connection.site_id, Shelf())

    def probe(self) -> Inventory:
        taken = sum(held.get(RESOURCE, 0) for held in self.shelf.drawers.values())
        node = ObservedNode("board-1", CARD.slug, SIZE, taken, vcpus=64, memory_gib=512)
        return Inventory("shelf 1", pools=(ObservedPool(CARD, RESOURCE),), nodes=(node,), names=(RESOURCE,))

    def perform(self, change: Change, spec: WorkspaceSpec, step: str) -> StepOutcome:
        if change is Change.DELETE:
            return self._clear(spec.external_name, step)
        if step == "drawer":
            self.shelf.drawers.setdefault(spec.external_name, {})
        elif step == "limit":
            sizes = {"cpu": spec.vcpus, "memory": spec.memory_gib, "storage": spec.storage_gib}
            bought = {gpu.resource_name: gpu.count for gpu in spec.gpus}
            self.shelf.drawers[spec.external_name] = {**dict.fromkeys(spec.closed, 0), **bought, **sizes}
        elif step == "access":
            self.shelf.open.add(spec.external_name)
        else:
            raise Permanent(f"the driver has no step {step!r}")
        return StepOutcome(done=True, detail=spec.external_name)

    def _clear(self, name: str, step: str) -> StepOutcome:
        if step == "access":
            self.shelf.open.discard(name)
        elif step == "drawer":
            self.shelf.drawers.pop(name, None)
        return StepOutcome(done=name not in self.shelf.drawers or step == "access")

    def observe(self, ref: WorkspaceRef) -> ObservedWorkspace:
        held = self.shelf.drawers.get(ref.external_name)
        return ObservedWorkspace(exists=held is not None, hard=held or {})
