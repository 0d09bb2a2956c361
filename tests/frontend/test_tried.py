"""Every form in which something is typed is tried meanwhile, or is named here with the reason why it is not."""

import re
from pathlib import Path

import frontend

TEMPLATES = Path(frontend.__file__).parent / "templates"
FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
FIELD = re.compile(r'\{% field |<textarea\b|<input\b(?![^>]*type="(?:hidden|checkbox)")')
INCLUDE = re.compile(r'\{% include "([^"]+)"[^%]*%\}')
TRIED = re.compile(r"\{% why\b|hx-trigger=\"[^\"]*input delay")
SECRET = "what is asked is a secret, and a try would be a try to get in"
STRANGERS = "a try would tell strangers who has an account; the browser asks for what is required"
BROWSER = "the browser itself asks for what is required, and a try would rate the whole month"
CONFIRMED = "the name that confirms it is compared by a script; the browser asks for the reason"
CHOSEN = "nothing is typed: one of a few is chosen"
FREE = "it may be empty and holds any text"
EFFECT = "its own effect or row is fetched while it is typed, and refuses beside the field"
SITE = "only the site knows what is there, and a try asks no site"
UNTRIED = {
    "account/login.html": SECRET,
    "account/password_reset.html": STRANGERS,
    "account/password_reset_from_key.html": SECRET,
    "clusters/_dialogs.html": FREE,
    "components/confirm.html": CONFIRMED,
    "environments/_live.html": CHOSEN,
    "environments/access.html": CHOSEN,
    "environments/_move.html": SITE,
    "environments/files.html": SITE,
    "machines/machine.html": CHOSEN,
    "operator/_draft_row.html": EFFECT,
    "operator/close_confirm.html": BROWSER,
    "operator/gpu_types.html": FREE,
    "operator/site_drift.html": CHOSEN,
    "operator/site_host.html": CONFIRMED,
    "workspaces/_dialogs.html": FREE,
}


def whole(text: str) -> str:
    return INCLUDE.sub(lambda found: whole((TEMPLATES / found[1]).read_text()), text)


def typed(form: str) -> bool:
    return FIELD.search(form) is not None


def untried() -> set[str]:
    return {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        for form in map(whole, FORM.findall(path.read_text()))
        if "post" in form.partition("<div")[0] and typed(form) and not TRIED.search(form)
    }


def test_every_form_in_which_something_is_typed_is_tried_meanwhile() -> None:
    assert untried() == set(UNTRIED)


def test_a_try_leaves_hints_as_they_are() -> None:
    """It sends the help texts of the form's fields: a hint that only the template knows would be gone."""
    hinted = re.compile(r"\{% field [^%]*\bhint=")
    found = [
        path.name
        for path in TEMPLATES.rglob("*.html")
        for form in FORM.findall(path.read_text())
        if "{% why" in form and hinted.search(form)
    ]
    assert found == []
