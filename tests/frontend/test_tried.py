"""Every form of several fields is tried while it is typed, or is named here with the reason why it is not."""

import re
from pathlib import Path

import frontend

TEMPLATES = Path(frontend.__file__).parent / "templates"
FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
FIELD = re.compile(r'\{% field |<(?:select|textarea)\b|<input\b(?![^>]*type="hidden")')
INCLUDE = re.compile(r'\{% include "([^"]+)"[^%]*%\}')
LOOP = re.compile(r"\{% for \w+ in [\w.]*(?:fields|counts)\b[^%]*%\}(.*?)\{% endfor %\}", re.DOTALL)
TRIED = re.compile(r"\{% why\b|hx-trigger=\"[^\"]*input delay")
SECRET = "what is asked is a secret, and a try would be a try to get in"
FILE = "a file is one of its fields; it is read when it is sent"
CONFIRMED = "the name that confirms it is compared by a script"
UNTRIED = {
    "account/login.html": SECRET,
    "account/password_reset_from_key.html": SECRET,
    "operator/cluster_template.html": FILE,
    "operator/environment_kind.html": FILE,
    "operator/environment_kind_new.html": FILE,
    "operator/site_host.html": CONFIRMED,
    "operator/site_hosts.html": FILE,
    "operator/site_new.html": FILE,
    "operator/usage_imports.html": FILE,
}


def whole(text: str) -> str:
    return INCLUDE.sub(lambda found: whole((TEMPLATES / found[1]).read_text()), text)


def several(form: str) -> bool:
    looped = any(FIELD.search(body) for body in LOOP.findall(form))
    return looped or len(FIELD.findall(form)) > 1


def untried() -> set[str]:
    return {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        for form in map(whole, FORM.findall(path.read_text()))
        if "post" in form.partition("<div")[0] and several(form) and not TRIED.search(form)
    }


def test_every_form_of_several_fields_is_tried_while_it_is_typed() -> None:
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
