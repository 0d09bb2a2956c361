"""What one attempt to get out of a workspace is, and the workspace it is tried in."""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from gpuaas.core.ids import short
from gpuaas.providers.base import FlavorAmount, GpuAmount, Member, WorkspaceSpec
from tests.providers.openstack.escapes.tenant import Credential

A100 = "CUSTOM_PCI_10DE_20B0"
VF = "CUSTOM_PCI_10DE_25B7"
VGPU = "VGPU"
SELECTORS: Mapping[str, Mapping[str, str]] = {
    A100: {"pci_passthrough:alias": "a100"},
    VGPU: {"resources:VGPU": "1", "trait:CUSTOM_GPU_L40S": "required"},
}
ALICE = Member(subject="u-alice", name="alice", role="admin")
BOB = Member(subject="u-bob", name="bob", role="view")
CHARLIE = Member(subject="u-charlie", name="charlie", role="admin")
REFUSED = "Policy doesn't allow"


@dataclass(frozen=True)
class Escape:
    """`what` is a sentence. Path and body name things of the workspace and of others in braces: `{their_server}`."""

    what: str
    verb: str
    service: str
    path: str
    body: Any = None
    status: int = 403
    words: str = ""


@dataclass(frozen=True)
class Size:
    """Of a flavor: how many are bought of it, and what each has."""

    count: int
    gpus: int
    vcpus: int
    memory_gib: int


def spec_of(
    *sizes: Size, kind: str = A100, members: tuple[Member, ...] = (ALICE,), name: str = "a"
) -> WorkspaceSpec:
    made = uuid.uuid4()
    flavors = tuple(
        FlavorAmount(
            slug=f"{name}{number}-{short(made)}",
            count=size.count,
            gpus=size.gpus,
            vcpus=size.vcpus,
            memory_gib=size.memory_gib,
            disk_gib=1,
            resource_name=kind,
            selector=SELECTORS[kind],
        )
        for number, size in enumerate(sizes)
    )
    return WorkspaceSpec(
        id=made,
        external_name=f"gpu-{short(made)}-lab",
        project_slug="weather-lm",
        organization_slug="climate",
        gpus=(GpuAmount(kind, sum(size.count * size.gpus for size in sizes), SELECTORS[kind]),),
        vcpus=sum(size.count * size.vcpus for size in sizes),
        memory_gib=sum(size.count * size.memory_gib for size in sizes),
        storage_gib=0,
        members=members,
        flavors=flavors,
    )


@dataclass(frozen=True)
class Try:
    """A member who tries, and the ids that the table names in braces."""

    who: Credential
    names: Mapping[str, str]

    def __call__(self, escape: Escape) -> requests.Response:
        path, text = escape.path, json.dumps(escape.body)
        for name, value in self.names.items():
            path, text = path.replace(f"{{{name}}}", value), text.replace(f"{{{name}}}", value)
        return self.who.call(escape.verb, escape.service, path, json.loads(text))


def each(verb: str, service: str, rows: Iterable[tuple[Any, ...]], **common: Any) -> list[Escape]:
    """(what, path, body, more) of one service and verb."""
    made = []
    for what, path, *rest in rows:
        body = rest[0] if rest else None
        more = rest[1] if len(rest) > 1 else {}
        made.append(Escape(what, verb, service, path, body, **{**common, **more}))
    return made
