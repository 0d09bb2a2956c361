"""A filter fetches rows that were not on the page before, such as those of a later page: the dialog that a row opens comes with it."""

from html.parser import HTMLParser

import pytest

from frontend import lists
from tests.frontend.operator.test_listings import Pages, full, looked_at, pages

__all__ = ["full", "pages"]

VOID = {"input", "br", "link", "meta", "img", "hr", "wbr", "col", "source"}
SHOWN = (
    "/operator/gpu-types/",
    "/operator/flavors/",
    "/operator/people/",
    "/operator/reservations/",
    "/operator/organizations/climate/billing/",
    "/operator/organizations/climate/credits/",
    "/p/weather-lm/tokens/",
    "/account/keys/",
)


class Parts(HTMLParser):
    """What of a page stands in which of its parts: the dialogs, and the links of rows that open them."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: set[str] = set()  # parts that a filter fetches anew
        self.dialogs: dict[str, set[str]] = {}
        self.opening: list[tuple[str, set[str]]] = []
        self._open: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        around = {name for _, name in self._open}
        if tag == "form" and "g-toolbar" in at.get("class", ""):
            self.fetched.add(at["hx-target"].removeprefix("#"))
        if tag == "dialog":
            self.dialogs[at["id"]] = around
        if "data-dialog" in at and "tbody" in {each for each, _ in self._open}:
            self.opening.append((at["data-dialog"], around))
        if tag not in VOID:
            self._open.append((tag, at.get("id", "")))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass


@pytest.mark.parametrize("address", SHOWN)
def test_a_row_that_a_filter_fetches_brings_its_dialog(
    address: str, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "FEW", 0)  # so that each has its filter
    found = Parts()
    found.feed(looked_at(pages.client, address).content.decode())
    opening = [(name, around & found.fetched) for name, around in found.opening]
    assert opening
    left = [name for name, parts in opening if not parts & found.dialogs.get(name, set())]
    assert left == []
