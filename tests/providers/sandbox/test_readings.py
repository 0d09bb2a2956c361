"""What simulated GPUs do stays within what a GPU can do."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.providers.sandbox.readings import busy

START = datetime(2026, 11, 1, tzinfo=UTC)


@given(st.uuids(), st.integers(0, 63), st.integers(0, 100_000))
def test_no_device_is_busier_than_always_and_none_gives_energy_back(
    uid: UUID, number: int, seconds: int
) -> None:
    share, joules = busy(SandboxPod(uid=uid, scheduled_at=START), number, START + timedelta(seconds=seconds))
    assert 0 <= share <= 1
    assert joules >= -1e-6
