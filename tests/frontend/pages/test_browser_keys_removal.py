"""By keyboard alone: a key is removed, an environment restarted, a workspace deleted by its typed name."""

from collections.abc import Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from gpuaas.environments.models import Environment
from gpuaas.workspaces.machines.keys import keypair_add
from gpuaas.workspaces.machines.models import PublicKey
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import User
from tests.api.furnished import KEY
from tests.frontend.pages.browsing import NEEDED, context_for, opened
from tests.frontend.pages.server import served

pytestmark = NEEDED
NAMED = """() => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText ?? '')
  .replace(/\\s+/g, ' ').trim()"""


@pytest.fixture
def address(known: dict[str, object]) -> Iterator[str]:
    with served() as url:
        yield url


def tab_to(page: Page, name: str) -> None:
    seen = []
    for _ in range(150):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(NAMED))
        if seen[-1] == name or seen[-1].startswith(f"{name} "):
            return
    raise AssertionError(f"Tab does not reach {name!r}: {seen}")


def begun(page: Page, at: str) -> None:
    page.goto(at)
    expect(page.locator("html")).to_have_attribute("data-assets", "ready")


def said(page: Page, words: str) -> None:
    expect(page.locator("#toasts")).to_contain_text(words)
    expect(page.locator("h1")).to_be_focused()


def test_what_is_taken_away(
    chromium: Browser, address: str, alice: User, as_alice: Actor, workspace: Workspace
) -> None:
    keypair_add(actor=as_alice, name="laptop", public_key=KEY)
    page, complaints = opened(context_for(chromium, address, alice))
    begun(page, address + reverse("frontend:keys"))
    tab_to(page, "Remove laptop")
    page.keyboard.press("Enter")
    tab_to(page, "Remove key")
    page.keyboard.press("Enter")
    said(page, "laptop")
    assert not PublicKey.objects.exists()

    row = Environment.objects.get()
    begun(page, address + reverse("frontend:environment", args=["weather-lm", row.pk]))
    tab_to(page, "Restart")
    page.keyboard.press("Space")
    tab_to(page, "Restart environment")
    page.keyboard.press("Enter")
    said(page, row.name)

    begun(page, address + reverse("frontend:workspace", args=["weather-lm", workspace.pk]))
    tab_to(page, "Delete")
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Delete workspace")
    page.keyboard.type("era5")
    expect(button).to_be_disabled()
    page.keyboard.press("Enter")
    expect(page.locator("#delete")).to_be_visible()
    page.keyboard.type("-finetune")
    expect(button).to_be_enabled()
    page.keyboard.press("Enter")
    said(page, "Deleting era5-finetune")
    workspace.refresh_from_db()
    assert workspace.state == "deleting"
    assert complaints == []
