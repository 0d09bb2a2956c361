"""The simulated fleet: its GPU types are called as the Kubernetes driver calls the same cards, and where it comes from."""

import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gpuaas.providers import kinds
from gpuaas.providers.base import Connection, DeviceKind
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import FLEET

KINDS = [rack.kind for rack in FLEET if rack.kind]
CARD_GIB = {"a100-40gb-mig-1g.5gb": 40}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.slug for kind in KINDS])
def test_one_card_has_one_name_at_all_sites(kind: DeviceKind) -> None:
    memory = CARD_GIB.get(kind.slug, kind.memory_gib)
    derived = kinds.kind(kind.product, memory_mib=memory * 1024, mig_profile=kind.mig_profile)

    assert (derived.slug, derived.name) == (kind.slug, kind.name)
    assert (derived.memory_gib, derived.sharing) == (kind.memory_gib, kind.sharing)


@pytest.mark.django_db
def test_a_site_that_was_added_by_hand_gets_its_nodes_once() -> None:
    connection = Connection(site_id=uuid.uuid4(), site_slug="ber-1", endpoint="", credentials={})
    with pytest.raises(CommandError, match="no sandbox site ber-1"):
        call_command("sandbox_fleet", "ber-1")
    assert SandboxDriver(connection).probe().nodes == ()
    for _ in range(2):
        call_command("sandbox_fleet", "ber-1", stdout=StringIO())
    found = SandboxDriver(connection).probe().nodes
    assert len(found) == sum(rack.nodes for rack in FLEET)
