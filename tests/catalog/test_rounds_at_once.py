"""An operator asks for the checks of a site while a round of them ends: one waits for the other, and neither fails."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.catalog.services import (
    site_health,
    site_preflight,
    site_preflight_request,
    site_probe,
)
from gpuaas.providers.sandbox.dials import failure_plan, fault_set
from tenants.actors import Actor
from tests.catalog.test_publish_at_once import closed
from tests.lab.fixtures import until
from tests.workspaces.machines.test_races import waiting

pytestmark = pytest.mark.django_db(transaction=True)


def while_it_ends(site: Site, work: Callable[[], object], asked: Callable[[], object]) -> object:
    """What the round came to, which waits for the row of its site as `asked` has it."""
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Site.objects.select_for_update().get(pk=site.pk)
            ended = threads.submit(closed, work)
            until(waiting, "the round waits for the site")
            asked()
        return ended.result(timeout=60)


@pytest.mark.parametrize("kind", ["preflight", "refused", "health"])
def test_a_round_ends_while_an_operator_asks_for_the_next(attached: Site, as_olga: Actor, kind: str) -> None:
    site_probe(attached.pk)
    if kind == "refused":
        failure_plan(attached.pk, verb="preflight", error="permanent", times=1)
    fault_set(attached.pk, area="sick", name="h100-01", found={"": 3})
    work = site_health if kind == "health" else site_preflight
    done = while_it_ends(
        attached,
        lambda: work(attached.pk),
        lambda: site_preflight_request(actor=as_olga, site=attached),
    )
    assert done == (kind != "refused")
    attached.refresh_from_db()
    checked = attached.checks.get("Checked", {})
    assert "unexpected" not in checked.get("message", "")
    assert checked.get("status") == {"preflight": "True", "refused": "False", "health": None}[kind]
