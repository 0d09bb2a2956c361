"""The frame around every page: what is tried, refused and answered. No database, no site."""

import re
from pathlib import Path

import pytest
from django import forms
from django.contrib.messages import get_messages
from django.contrib.messages.storage.cookie import CookieStorage
from django.http import HttpRequest
from django.test import RequestFactory

from frontend import frame
from gpuaas.core.errors import Conflict, Invalid, NotFound, QuotaRefused, StaleVersion

VIEWS = Path(frame.__file__).parent / "views"


class Named(forms.Form):
    name = forms.CharField()
    until = forms.CharField(required=False)


def bound() -> Named:
    form = Named({"name": "fold"})
    assert form.is_valid()
    return form


def asked(method: str = "post", **headers: str) -> HttpRequest:
    request: HttpRequest = getattr(RequestFactory(), method)("/p/weather-lm/", headers=headers)
    vars(request)["_messages"] = CookieStorage(request)
    return request


def said(request: HttpRequest) -> list[tuple[str, str]]:
    return [(message.level_tag, str(message)) for message in get_messages(request)]


def test_only_what_is_posted_binds_a_form() -> None:
    assert frame.posted(asked("get")) is None
    assert Named(frame.posted(asked("get"))).errors == {}
    assert Named(frame.posted(asked())).errors == {
        "name": ["This field is required."]
    }  # also where nothing was sent


def test_a_refusal_lands_beside_its_field() -> None:
    form = bound()
    with frame.refusals_on(form, Invalid, fields={"lease_ends_at": "until"}):
        raise Invalid.field("lease_ends_at", "choose a later day")
    assert form.errors == {"until": ["Choose a later day."]}


def test_a_refusal_of_nothing_by_name_lands_where_the_view_says() -> None:
    form = bound()
    with frame.refusals_on(form, Conflict, default="name"):
        raise QuotaRefused("8 of 8 are held")  # a kind of Conflict
    assert form.errors == {"name": ["8 of 8 are held."]}


@pytest.mark.parametrize("error", [NotFound("there is no such project"), ValueError("a bug")])
def test_what_the_view_does_not_name_goes_on(error: Exception) -> None:
    form = bound()
    with pytest.raises(type(error)), frame.refusals_on(form, Invalid, Conflict):
        raise error
    assert not form.errors


def test_one_click_is_refused_by_a_message() -> None:
    request = asked()
    with frame.refusals_shown(request, Conflict, StaleVersion):
        raise StaleVersion("somebody changed it meanwhile")
    assert said(request) == [("error", "Somebody changed it meanwhile.")]


def test_done_says_so_and_goes_on() -> None:
    request = asked()
    answer = frame.done(request, "fold is deleted.", "frontend:home", "weather-lm")
    assert (answer.status_code, answer["Location"]) == (302, "/p/weather-lm/")
    assert said(request) == [("success", "fold is deleted.")]


def test_a_script_is_told_by_a_toast_and_stays() -> None:
    request = asked(**{"HX-Request": "true"})
    answer = frame.done_here(request, "bob has left.", "/p/weather-lm/", undo="/p/weather-lm/members/")
    assert answer.status_code == 204
    assert "bob has left." in answer["HX-Trigger"]
    assert "/p/weather-lm/members/" in answer["HX-Trigger"]
    assert said(request) == []
    assert frame.done_here(asked(), "bob has left.", "/p/weather-lm/").status_code == 302


def test_the_name_is_typed_exactly() -> None:
    request = RequestFactory().post("/", {"confirm_name": "fold"})
    assert frame.name_typed(request, "fold")
    assert not frame.name_typed(request, "fold-2", done="ended", do="end")
    assert vars(request)["misnamed"] == "Nothing was ended: type fold-2 exactly to end it."


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("0", 0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("²", None),
        ("1234567890", None),
    ],
)
def test_numbers_of_addresses(text: str, number: int | None) -> None:
    assert frame.number_of(text) == number


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"Paginator\(", "frontend.lists.paged"),
        (r'GET\.get\("(sort|q)"', "frontend.lists.query_of"),
        (r"except [^\n]*:\n +refuse\(form, error[^\n]*\)\n +else:", "frontend.frame.refusals_on"),
        (r"(?m)^( +)messages\.success\(.*\)\n\1return redirect\(", "frontend.frame.done"),
        (r"@login_required\n@|status=422 if form", "a door of frontend.place, frontend.frame.draw_page"),
    ],
)
def test_no_view_does_by_hand_what_the_frame_does(pattern: str, instead: str) -> None:
    views = {str(path): path.read_text(encoding="utf-8") for path in VIEWS.rglob("*.py")}
    assert [name for name, text in views.items() if re.search(pattern, text)] == [], f"use {instead}"
