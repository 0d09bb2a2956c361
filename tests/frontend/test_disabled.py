"""No template has a disabled button without the sentence that says why (`tests/frontend/disabled.py` reads what is drawn)."""

import re
from pathlib import Path

import pytest

import frontend
from tests.frontend.disabled import sentences_of

TEMPLATES = sorted((Path(frontend.__file__).parent / "templates").rglob("*.html"))
BUTTON = re.compile(r"<(?:button|a)\b(?:\{%.*?%\}|[^>])*>", re.DOTALL)
OFF = re.compile(r"\b(?<!aria-)(?<!hx-)disabled\b(?![=-]elt)")
GIVEN = re.compile(r"\b(?:disabled|blocked)=(\"[^\"]*\"|True)")


def test_no_button_is_disabled_but_by_the_tag_or_with_its_reason() -> None:
    found = {
        (path.name, tag)
        for path in TEMPLATES
        for tag in BUTTON.findall(path.read_text())
        if OFF.search(tag) and "aria-describedby" not in tag
    }
    assert found == set()


def test_what_a_template_says_is_a_sentence() -> None:
    given = [(path.name, text) for path in TEMPLATES for text in GIVEN.findall(path.read_text())]
    assert given
    assert [each for each in given if not re.fullmatch(r'"[A-Z].* .*\."', each[1])] == []


def test_no_reason_is_only_a_title() -> None:
    """A title is shown to a pointer alone, and a button that is disabled shows none at all to many."""
    found = [path.name for path in TEMPLATES if re.search(r"disabled=\S+ title=", path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "html",
    [
        "<button disabled>Go</button>",
        '<button data-blocked aria-describedby="a">Go</button>',
        '<button disabled aria-describedby="a">Go</button><p id="a">not now</p>',
        '<button disabled aria-describedby="a">Go</button><p id="a">It is late now.</p><p id="a">It is late now.</p>',
    ],
)
def test_a_button_without_one_is_found(html: str) -> None:
    with pytest.raises(AssertionError):
        sentences_of(html)


def test_its_sentence_is_read() -> None:
    html = '<button class="btn" disabled aria-describedby="a">Go</button> <span id="a">It is\n <b>late</b> now.</span>'
    assert sentences_of(html) == ["It is late now."]
