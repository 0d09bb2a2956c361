"""A button that is pressed twice within a moment, and once more while the answer takes its time: sent once, and no false error."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from urllib.parse import urljoin, urlsplit

import pytest
from django.db.models import F
from playwright.sync_api import Browser, Locator, Page, Route, expect

from billing.services import rate_draft_open
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import User
from tests.factories.catalog import FlavorFactory
from tests.frontend.pages.browsing import NEEDED, context_for, opened, until
from tests.frontend.pages.server import served

pytestmark = NEEDED
WORKSPACE = "/p/weather-lm/workspaces/{workspace}/"
ENVIRONMENT = "/p/weather-lm/environments/{environment}/"
LATER = "{later}"
# a page whose form is under way cannot be asked what it shows; another one of its origin can
KEEP_SAID = """() => {
  const toasts = document.getElementById('toasts');
  new MutationObserver(() => { localStorage.said = toasts.textContent }).observe(toasts, { childList: true });
}"""


@dataclass(frozen=True)
class Press:
    """The button `css` of the page `at`, once `opens` was pressed and `typed` is in its form, by name. answered: what is there once
    the page has drawn what that will do, which moves the button. reviewed: the button of that form that shows first what will
    happen. asleep: whether the workspace is suspended."""

    at: str
    css: str
    opens: str = ""
    typed: Mapping[str, str] = field(default_factory=dict)
    by: str = "alice"
    answered: str = ""
    reviewed: str = ""
    asleep: bool = False


def of_dialog(name: str, at: str, by: str = "alice", **typed: str) -> Press:
    return Press(at, f"#{name} button[type=submit]", f"[data-dialog={name}]", typed, by)


PRESSES = {
    "resize": Press(f"{WORKSPACE}resize/", "#resize button[type=submit]", typed={"storage_gib": "600"}),
    "extend": replace(of_dialog("extend", WORKSPACE, until=LATER), answered="#extend-effect dl"),
    "suspend": of_dialog("suspend", WORKSPACE),
    "delete": of_dialog("delete", WORKSPACE, confirm_name="era5-finetune"),
    "revoke": Press(WORKSPACE, "dialog[id$=revoke] button[type=submit]", "[data-dialog$=revoke]"),
    "leave the workspace": Press(WORKSPACE, "form[hx-post] button[aria-label='Remove bob']"),
    "leave the project": Press("/p/weather-lm/members/", "form[hx-post] button:has-text('Remove')"),
    "submit": Press(
        "/p/weather-lm/jobs/new/",
        "main form[method=post] .btn-primary",
        typed={"name": "twice", "image": "train:1"},
    ),
    "cancel": of_dialog("cancel", "/p/weather-lm/jobs/{job}/"),
    "priority": of_dialog("priority", "/p/weather-lm/jobs/{job}/", priority="high"),
    "restart": of_dialog("restart", ENVIRONMENT),
    "stop": of_dialog("stop", ENVIRONMENT),
    "delete an environment": of_dialog("delete", ENVIRONMENT, confirm_name="lab"),
    "limit": Press(
        "/operator/limits/",
        "#limit-form button[type=submit]",
        "#limit-project-weather-lm [data-cell]:has-text('H100')",
        {"hard": "7"},
        "olga",
        answered="#limit-effect dd:has-text('→ 7')",
    ),
    "review": Press(
        "/operator/reservations/",
        "main form[method=post] .btn-primary",
        typed={"flavor": "h100.own", "project": "weather-lm"},
        by="olga",
    ),
    "reserve": Press(
        "/operator/reservations/",
        "main form[method=post] button[name=confirmed]",
        typed={"flavor": "h100.own", "project": "weather-lm"},
        by="olga",
        reviewed="main form[method=post] .btn-primary",
    ),
    "resume": replace(of_dialog("resume", WORKSPACE), asleep=True),
    "publish": of_dialog("publish", "/operator/rates/drafts/{draft}/", "olga"),
}


@pytest.fixture
def address(known: dict[str, object], workspace: Workspace) -> Iterator[str]:
    Flavor.objects.update(vcpus=8, memory_gib=64)
    workspace.flavors.update(confirmed=F("count"))
    FlavorFactory.create(pool=workspace.flavors.get().flavor.pool, slug="h100.own", price_class="reserved")
    known["draft"] = rate_draft_open(actor=SYSTEM).pk
    with served() as url:
        yield url


def filled_in(page: Page, press: Press, workspace: Workspace) -> Locator:
    """The button, when all that its form asks meanwhile is answered."""
    expect(page.locator("html")).to_have_attribute("data-assets", "ready")
    if press.opens:
        page.locator(press.opens).locator("visible=true").first.click()
    button = page.locator(press.reviewed or press.css).locator("visible=true").first
    form = button.locator("xpath=ancestor::form")
    later = f"{workspace.lease_ends_at + timedelta(days=2):%Y-%m-%dT%H:%M}"
    for name, text in press.typed.items():
        entry = form.locator(f"[name={name}]").or_(page.locator(f"[form=limit-form][name={name}]")).first
        if entry.evaluate("each => each.tagName") == "SELECT":
            entry.select_option(text)
        else:
            entry.fill(text.format(later=later))
    page.wait_for_load_state("networkidle")
    if press.answered:
        expect(page.locator(press.answered).first).to_be_visible()
    if press.reviewed:
        button.click()
        button = page.locator(press.css)
    expect(button).to_be_enabled()
    button.scroll_into_view_if_needed()
    return button


class Presses:
    """What the page has sent by its button, held back until it is let go."""

    def __init__(self, page: Page, button: Locator) -> None:
        box = button.bounding_box()
        assert box is not None
        self.page, self.beside = page, page.context.new_page()
        self.at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        action = button.evaluate("each => each.form.getAttribute('action') || location.pathname")
        self.path = urlsplit(action).path
        self.sent: list[Route] = []
        page.evaluate(KEEP_SAID)
        page.route("**/*", self.hold)

    def hold(self, route: Route) -> None:
        to = urlsplit(route.request.url)
        if route.request.method == "POST" and (to.path, to.query) == (self.path, ""):
            self.sent.append(route)
        else:
            route.fallback()

    def settle(self) -> bool:
        """Whatever was under way to the portal by now has arrived there. The page itself may be on its way to the next."""
        return self.beside.goto(urljoin(self.page.url, "/health/ready")) is not None

    def said(self) -> str:
        return str(self.beside.evaluate("localStorage.said ?? ''"))

    def thrice(self) -> None:
        self.page.mouse.dblclick(*self.at)
        until(lambda: self.settle() and self.sent, "it was not sent")
        self.page.mouse.click(*self.at)
        assert self.settle()
        assert len(self.sent) == 1


@pytest.mark.parametrize("what", PRESSES)
def test_it_is_sent_once(
    chromium: Browser,
    address: str,
    known: dict[str, object],
    people: dict[str, User],
    workspace: Workspace,
    what: str,
) -> None:
    press = PRESSES[what]
    if press.asleep:
        Workspace.objects.filter(pk=workspace.pk).update(state="suspended", suspended_at=clock.now())
    page, complaints = opened(context_for(chromium, address, people[press.by]))
    page.goto(address + press.at.format(**known))
    presses = Presses(page, filled_in(page, press, workspace))
    presses.thrice()
    with page.expect_response(lambda answer: answer.request == presses.sent[0].request) as answer:
        presses.sent[0].continue_()
    assert answer.value.status < 400
    page.wait_for_load_state("networkidle")
    assert len(presses.sent) == 1, "after the answer, once more"
    expect(page.locator(".toast[data-tone=bad]")).to_have_count(0)
    assert complaints == []


def test_a_press_while_the_answer_takes_long_is_answered_in_words(
    chromium: Browser, address: str, known: dict[str, object], alice: User, workspace: Workspace
) -> None:
    page, _ = opened(context_for(chromium, address, alice))
    page.goto(address + PRESSES["resize"].at.format(**known))
    presses = Presses(page, filled_in(page, PRESSES["resize"], workspace))
    presses.thrice()
    assert "not answered yet" not in presses.said(), "so soon"

    def said() -> bool:
        page.mouse.click(*presses.at)
        return presses.settle() and "This was sent and is not answered yet" in presses.said()

    until(said, "nothing is said")
    assert len(presses.sent) == 1
