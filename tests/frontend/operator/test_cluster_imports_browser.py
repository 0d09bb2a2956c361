"""Import from a class in a real browser: the answer appears on the open page, in both themes and on a phone, sound for axe."""

import json
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, WebSocketRoute, expect

from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ClusterTemplate
from gpuaas.clusters.reconcile.imports import parameters_import
from gpuaas.core import clock
from tenants.actors import SYSTEM
from tenants.models import Project, User
from tests.clusters.class_stage import BOOT, ZONE, Classes
from tests.frontend.operator import test_browser as browser
from tests.frontend.operator.test_browser import opened, picture, portal
from tests.lab.fixtures import LabSite

__all__ = ["portal"]

pytestmark = browser.pytestmark


@pytest.fixture
def template(portal: tuple[str, str], lab: LabSite) -> ClusterTemplate:
    """The class has lost a zone that a cluster chose, and has got two variables since."""
    classes = Classes(lab)
    made = classes.offered(SYSTEM, Site.objects.get(slug="ber-1"))
    words = {"template_version": made.versions.get(), "release": "1.35.6", "control_count": 1}
    Cluster.objects.create(
        project=Project.objects.earliest("pk"),
        site=made.site,
        name="train",
        parameters={"zone": "a"},
        lease_ends_at=clock.now() + timedelta(days=1),
        created_by=User.objects.earliest("pk"),
        created_at=clock.now(),
        **words,
    )
    network = {"type": "string", "description": "Of pods", "enum": ["cilium", "calico"]}
    classes.tells(
        "network", zone={**ZONE, "enum": ["b", "c"], "default": "b"}, bootSeconds=BOOT, network=network
    )
    return made


def test_the_answer_appears_by_itself(
    chromium: Browser, portal: tuple[str, str], template: ClusterTemplate
) -> None:
    page, complaints = opened(chromium, portal)
    sockets: list[WebSocketRoute] = []

    def heard(socket: WebSocketRoute) -> None:
        sockets.append(socket)

    page.route_web_socket("**/ws/live/**", heard)
    page.goto(f"{portal[0]}cluster-templates/of/k8s/", wait_until="load")
    page.get_by_role("button", name="Import from the class").click()
    expect(page.get_by_role("button", name="Stop reading")).to_be_visible()
    page.evaluate("document.body.dataset.same = 'page'")
    assert parameters_import(template.pk)
    event: dict[str, Any] = {"kind": "cluster_template_import", "id": str(template.pk), "mark": "m"}
    for socket in sockets:
        socket.send(json.dumps(event))
    changes = page.get_by_role("region", name="Changes, table")
    expect(changes).to_contain_text("no longer accepts a; also accepts c")
    expect(changes).to_contain_text("one of cilium, calico")
    expect(page.get_by_role("region", name="What no longer fits, table")).to_contain_text(
        "network: this is required"
    )
    assert page.evaluate("document.body.dataset.same") == "page", "it was not loaded anew"
    page.close()
    for size, theme in (("desk", "light"), ("phone", "dark")):
        page, more = opened(chromium, portal, size, theme)
        page.goto(f"{portal[0]}cluster-templates/of/k8s/import/", wait_until="load")
        bad = {"serious", "critical"}
        found = [v["id"] for v in Axe().run(page).response["violations"] if v["impact"] in bad]
        width: int = page.evaluate("document.documentElement.scrollWidth")
        assert (found, width <= browser.SIZES[size]["width"]) == ([], True)
        picture(page, f"import-{theme}-{size}")
        complaints += more
        page.close()
    assert complaints == []
