"""What the check of a site says of the rights of the portal's account; real ones are asked in fitness/test_rights.py."""

from typing import cast

import pytest

from gpuaas.core.conditions import Status
from gpuaas.providers.kubeapi import queues
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.preflight.rights import REVIEWS, permissions


class Account:
    """Of a site that serves everything. lacks: the plurals to which its account has no rights."""

    def __init__(self, *lacks: str) -> None:
        self.lacks = {"*", *lacks}

    def find(self, path: str) -> Object:
        return {"resources": [{"name": name} for name in ("projects", "projectrequests")]}

    def create(self, path: str, body: Object) -> Object:
        assert path == REVIEWS
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["resource"] not in self.lacks}}


CLASSES = queues.CLASSES.rpartition("/")[2]


@pytest.mark.parametrize(
    ("lacks", "reason", "blocks"),
    [((), "Enough", True), ((CLASSES,), "Fewer", False), ((CLASSES, "nodes"), "Missing", True)],
)
def test_an_account_of_before_kueues_classes_forbids_no_sale(
    lacks: tuple[str, ...], reason: str, blocks: bool
) -> None:
    found = permissions(cast("Api", Account(*lacks)))
    assert (found.reason, found.blocking) == (reason, blocks)
    assert found.status == (Status.FALSE if lacks else Status.TRUE)
    for name in lacks:
        assert f"get {name}" in found.message
        assert "site_role" in found.remedy
    assert ("have no priority class of Kueue" in found.message) == (reason == "Fewer")
