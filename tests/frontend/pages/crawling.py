"""The way of a browser through the whole console: every link once for each kind of address, every dialog."""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Literal
from urllib.parse import parse_qsl, urldefrag, urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.urls import Resolver404, resolve
from playwright.sync_api import Page, expect

OPERATORS = ("/operator/",)
TENANTS = ("/p/", "/o/", "/account/", "/accounts/")
WIDTHS = (390, 768, 1280, 1920)
AXE_WIDTHS = (390, 1280)  # the second is what the rest is done at
HEIGHT = 900
FILES = re.compile(r"\.(csv|pdf|yaml)($|\?)|[?&](\w+-)?(csv|format)=|/download/($|\?)")
# other rooms, and the way out
ELSEWHERE = ("/api/", "/static/", "/accounts/login/", "/accounts/logout/", "/healthz")
ROW = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-?\d+$")

DISABLED = """() => [...document.querySelectorAll('button:disabled, [aria-disabled=true]')]
  .filter(each => each.checkVisibility())
  .filter(each => {
    const by = (each.getAttribute('aria-describedby') ?? '').split(' ').map(id => document.getElementById(id)?.innerText ?? '');
    const beside = each.parentElement?.querySelector('.g-reason')?.innerText ?? '';
    return ![...by, beside].join('').trim();
  })
  .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 140))"""
TOO_WIDE = """() => document.documentElement.scrollWidth > innerWidth ?
  [...document.querySelectorAll('main *')].filter(each => each.getBoundingClientRect().right > innerWidth + 1
    && !each.closest('.g-scroll, .visually-hidden')).slice(0, 2)
    .map(each => each.outerHTML.replace(/\\s+/g, ' ').slice(0, 120)).join(' | ') || 'something' : ''"""
# a matrix is looked at part by part; what else is wider than its place is stacked on a phone, or has too much to say
SCROLLS = """() => [...document.querySelectorAll('main .g-scroll:not(.g-matrix, [data-chart-part])')]
  .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .map(each => `${each.ariaLabel ?? each.id} by ${each.scrollWidth - each.clientWidth}`).join(' | ')"""
# the same of what is open over the page
TOO_WIDE_INSIDE = """each => {
  const right = Math.min(each.getBoundingClientRect().right, innerWidth) + 1;
  return [each, ...each.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > right
    && one.checkVisibility() && !one.parentElement.closest('.g-scroll, .visually-hidden') && !one.matches('.visually-hidden'))
    .slice(0, 2).map(one => one.outerHTML.replace(/\\s+/g, ' ').slice(0, 120)).join(' | ');
}"""

# a change of color that is under way is no color of the theme
ENDED = """() => document.getAnimations().filter(each => Number.isFinite(each.effect.getComputedTiming().endTime))
  .forEach(each => each.finish())"""


@dataclass
class Crawl:
    """One reader's way through the console. `inside`: what addresses begin with that are followed."""

    page: Page
    address: str
    complaints: list[str]
    inside: tuple[str, ...]
    axe: bool
    seen: set[tuple[str, str]] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    dialogs: int = 0

    def through(self, *starts: str) -> None:
        left = deque(starts)
        while left:
            path = left.popleft()
            kinds = self.kinds_of(path)
            if kinds <= self.seen:
                continue
            self.seen |= kinds
            left.extend(self.visit(path, min(kinds)[0]))

    def kinds_of(self, path: str) -> set[tuple[str, str]]:
        """The pattern of an address, and with it each name in its query: one of each is opened."""
        parts = urlsplit(path)
        if not parts.path.startswith(self.inside) or parts.path.startswith(ELSEWHERE):
            return set()
        try:
            name = resolve(parts.path).view_name
        except Resolver404:
            name = parts.path
        return {(name, ""), *((name, asked) for asked, _ in parse_qsl(parts.query))}

    def visit(self, path: str, name: str) -> list[str]:
        """Looked at in every way, with another query only for what it says; what it links to."""
        if FILES.search(path):
            answer = self.page.request.get(self.address + path)
            if answer.status >= 400 and answer.status != 503:  # a document may still be in the making
                self.found.append(f"{path}: {answer.status}")
            return []
        is_new = self.arrives(path, name)
        if is_new is None:
            return []
        expect(self.page.locator("html[data-assets]")).to_have_count(1)
        if is_new:
            self.look(path)
        self.found += [f"{path} does not say why: {html}" for html in self.page.evaluate(DISABLED)]
        links = self.links()
        if is_new:
            self.open_dialogs(path)
        self.told(path)
        return links

    def arrives(self, path: str, name: str) -> bool | None:
        """Whether a page of its kind is new; None where there is no page."""
        response = self.page.goto(self.address + path)
        if response is None or response.status >= 400:
            self.found.append(f"{path}: {response and response.status}")
            return None
        where = self.kinds_of(self.page.url.removeprefix(self.address))
        name = min(where)[0] if where else name  # it may lead elsewhere
        self.names.append(name)
        return self.names.count(name) == 1

    def links(self) -> list[str]:
        found = self.page.evaluate("[...document.querySelectorAll('a[href]')].map(each => each.href)")
        return [
            urldefrag(link.removeprefix(self.address))[0] for link in found if link.startswith(self.address)
        ]

    def look(self, path: str) -> None:
        """At a page of a new kind."""
        self.wide(path)
        if self.axe:
            self.sound(path)

    def told(self, path: str) -> None:
        self.found += [f"{path} complains: {text}" for text in self.complaints]
        self.complaints.clear()

    def wide(self, path: str) -> None:
        """The same page at every width, the last one is where the rest is done."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            if what := self.page.evaluate(TOO_WIDE):
                self.found.append(f"{path} scrolls sideways at {width}: {what}")
            if what := self.page.evaluate(SCROLLS):
                self.found.append(f"{path} has a part that scrolls sideways at {width}: {what}")
        self.page.set_viewport_size({"width": 1280, "height": HEIGHT})

    def sound(self, what: str, *, inside: str = "", widths: Iterable[int] = AXE_WIDTHS) -> None:
        """All that axe knows in light; in dark what colors change. On a phone, and on a desk. inside: a part of the page."""
        themes: list[tuple[Literal["light", "dark"], dict[str, list[str]] | None]] = [
            ("light", None),
            ("dark", {"runOnly": ["color-contrast"]}),
        ]
        for width, (theme, options) in product(widths, themes):
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=theme)
            self.page.evaluate(ENDED)
            found = Axe().run(self.page, inside or None, options).response["violations"]
            self.found += [
                f"{what} in {theme} at {width}: {v['id']} {v['nodes'][0]['html'][:140]}" for v in found
            ]
        self.page.emulate_media(color_scheme="light")

    def dialogs_of_page(self) -> Iterable[str]:
        shown = "[...document.querySelectorAll('[data-dialog]')].filter(e => e.checkVisibility()).map(e => e.dataset.dialog)"
        return {ROW.sub("", name): name for name in self.page.evaluate(shown)}.values()

    def open_dialogs(self, path: str) -> None:
        """One of each kind of row, and what a link draws beside the page; whatever is opened closes."""
        for name in self.dialogs_of_page():
            self.page.locator(f'[data-dialog="{name}"]:visible').first.click()
            self.look_into(path, name)
        for opener in self.page.locator('a[hx-target="#drawer-body"]:visible').all()[:1]:
            opener.click()
            self.look_into(path, "drawer")

    def look_into(self, path: str, name: str) -> None:
        """A dialog that has just been opened, when what it fetches is there."""
        inside = f"dialog[id='{name}']"
        dialog = self.page.locator(inside)
        expect(dialog).to_be_visible()
        expect(dialog.locator("[hx-trigger='intersect once'] > [data-scripted]")).to_have_count(0)
        self.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
        self.page.evaluate(ENDED)
        if what := dialog.evaluate(TOO_WIDE_INSIDE):
            self.found.append(f"{path} #{name} is too wide at {WIDTHS[0]}: {what}")
        if self.axe:
            self.sound(f"{path} #{name}", inside=inside, widths=WIDTHS[:1])
        self.page.set_viewport_size({"width": 1280, "height": HEIGHT})
        self.found += [f"{path} #{name} does not say why: {html}" for html in self.page.evaluate(DISABLED)]
        self.page.keyboard.press("Escape")
        expect(dialog).not_to_be_visible()
        self.dialogs += 1

    def open_frame(self) -> None:
        """What every page has, by its keys."""
        for key, name in (("Control+k", "palette"), ("?", "shortcuts")):
            self.page.keyboard.press(key)
            self.look_into("everywhere", name)
        self.told("everywhere")
