"""Specs and machines without a site: what is rendered for them is looked at as cloud-init and a shell would."""

import uuid
from pathlib import Path
from typing import Any

import yaml

from gpuaas.core.ids import short, uuid7
from gpuaas.providers.base import (
    Boots,
    ClusterKind,
    ClusterSpec,
    ControlPlane,
    FlavorAmount,
    NodePool,
    boot_token,
)
from gpuaas.providers.openstack.clusters.guest import Guest, cloud_config
from gpuaas.providers.openstack.clusters.place import CIDR, control_address

SEED = "5eed" * 16
A100 = FlavorAmount("a100.1", 2, 1, 8, 64, 80, "CUSTOM_PCI_10DE_20B0", {"pci_passthrough:alias": "a100"})
H100 = FlavorAmount("h100.8", 1, 8, 64, 512, 80, "CUSTOM_PCI_10DE_2330", {"pci_passthrough:alias": "h100"})


def spec(
    kind: ClusterKind = ClusterKind.KUBERNETES, *, url: str = "https://portal.example/api", **changes: Any
) -> ClusterSpec:
    made = uuid.UUID("0199d0c2-3f6e-7d4a-9b1e-000012345678")
    release = "1.35.6" if kind is ClusterKind.KUBERNETES else "25.05.3"
    pools = (NodePool("small", A100, release), NodePool("big", H100, release))
    given: dict[str, Any] = {"settings": {"image": "ubuntu"}, "addons": (), **changes}
    return ClusterSpec(
        id=made,
        external_name=f"c-{short(made)}-train",
        project_slug="weather-lm",
        organization_slug="climate",
        kind=kind,
        release=release,
        control_plane=ControlPlane(1, 4, 8, 40),
        pools=pools,
        boots=Boots(url, SEED),
        **given,
    )


def guest(made: ClusterSpec, pool: NodePool | None = None, *, heads: int = 1) -> Guest:
    name = f"{made.external_name}-{pool.name if pool else 'control'}-1"
    boot = uuid7()
    return Guest(
        spec=made,
        name=name,
        release=made.release,
        boot=boot.hex,
        token=boot_token(SEED, cluster=made.id, node=name, boot=boot),
        heads=tuple(control_address(each) for each in range(1, heads + 1)),
        entrance="203.0.113.7",
        network=CIDR,
        pool=pool,
        address="" if pool else control_address(1),
    )


def document(machine: Guest) -> dict[str, Any]:
    text = cloud_config(machine)
    assert text.startswith("#cloud-config\n")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def files(machine: Guest) -> dict[str, str]:
    return {row["path"]: row["content"] for row in document(machine)["write_files"]}


def installed(machine: Guest, root: Path) -> Path:
    """Below `root`; returns its /etc/gpuaas."""
    for row in document(machine)["write_files"]:
        path = root / row["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["content"])
        path.chmod(int(row["permissions"], 8))
    return root / "etc/gpuaas"
