"""The simulated fleet's GPU types are called as the Kubernetes driver calls the same cards."""

import pytest

from gpuaas.providers import kinds
from gpuaas.providers.base import DeviceKind
from gpuaas.providers.sandbox.fleet import FLEET

KINDS = [rack.kind for rack in FLEET if rack.kind]
CARD_GIB = {"a100-40gb-mig-1g.5gb": 40}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.slug for kind in KINDS])
def test_one_card_has_one_name_at_all_sites(kind: DeviceKind) -> None:
    memory = CARD_GIB.get(kind.slug, kind.memory_gib)
    derived = kinds.kind(kind.product, memory_mib=memory * 1024, mig_profile=kind.mig_profile)

    assert (derived.slug, derived.name) == (kind.slug, kind.name)
    assert (derived.memory_gib, derived.sharing) == (kind.memory_gib, kind.sharing)
