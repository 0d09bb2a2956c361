"""Credentials at the API server, where a revocation is cut in two."""

import pytest

from gpuaas.core.errors import GpuaasError, NotFound
from gpuaas.providers.kubeapi.client import Api
from tests.contracts.rigs import CHARLIE
from tests.lab.fixtures import in_the_end
from tests.providers.kubernetes.conftest import BOB, Room, kubeconfig

pytestmark = pytest.mark.lab


def test_a_revocation_that_died_between_its_two_calls_is_finished_by_the_next(room: Room) -> None:
    account = f"{room.path('serviceaccounts')}/{BOB.subject}"
    before = room.admin.get(account)["metadata"]
    room.admin.delete(account)
    with pytest.raises(NotFound):
        kubeconfig(room.driver, room.spec, BOB)

    in_the_end(lambda: room.driver.revoke_access(room.ref, BOB))

    anew = room.admin.get(account)
    assert anew["automountServiceAccountToken"] is False
    assert {key: anew["metadata"][key] for key in ("labels", "annotations")} == {
        key: before[key] for key in ("labels", "annotations")
    }
    assert Api(kubeconfig(room.driver, room.spec, BOB)).items(room.path("pods")) == []


def test_who_has_no_right_gets_no_account_by_losing_one(room: Room) -> None:
    in_the_end(lambda: room.driver.revoke_access(room.ref, CHARLIE))
    assert room.admin.find(f"{room.path('serviceaccounts')}/{CHARLIE.subject}") is None
    with pytest.raises(GpuaasError):
        kubeconfig(room.driver, room.spec, CHARLIE)
