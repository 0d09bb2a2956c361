"""Frames of pages: what they are for a screen reader, and that they escape what they are given."""

import pytest
from django import forms
from django.template import Context, Template

from tests.frontend.markup import flat

pytestmark = pytest.mark.usefixtures("built")
HOSTILE = '<img src=x onerror="alert(1)">'


class Empty(forms.Form):
    name = forms.CharField()

    def clean(self) -> None:
        raise forms.ValidationError("Never right")


def render(source: str, **context: object) -> str:
    return flat(Template("{% load console layout %}" + source).render(Context(context)))


def test_a_card_is_named_by_its_title() -> None:
    html = render('{% card "Projects" id="projects" text="all of yours" %}<p>3</p>{% endcard %}')
    assert '<section class="card" aria-labelledby="projects-title">' in html
    assert '<h2 id="projects-title">Projects</h2><p>all of yours</p>' in html
    assert html.endswith("<p>3</p></section>")


def test_a_card_without_a_title_has_a_label_and_no_header() -> None:
    html = render('{% card label="Entries" data_live="site:1" %}x{% endcard %}')
    assert '<section class="card" data-live="site:1" aria-label="Entries">' in html
    assert "card-header" not in html


def test_a_table_that_scrolls_is_a_region_that_keys_reach() -> None:
    html = render('{% table label="Pools, table" hover=True data_rows=True %}<tbody></tbody>{% endtable %}')
    assert '<div class="g-scroll" tabindex="0" role="region" aria-label="Pools, table">' in html
    assert '<table class="table table-hover g-stacked" data-rows="">' in html


def test_a_table_without_a_label_does_not_scroll() -> None:
    html = render('{% table css="g-bars" %}<tbody></tbody>{% endtable %}')
    assert html == '<table class="table g-bars"><tbody></tbody></table>'


def test_columns_are_heads_of_their_kind() -> None:
    html = render('{% columns "Name" "num:GPUs" who "hidden:Change" %}', who="By: whom")
    assert '<th scope="col">Name</th>' in html
    assert '<th scope="col" class="g-num">GPUs</th>' in html
    assert '<th scope="col">By: whom</th>' in html
    assert '<th scope="col"><span class="visually-hidden">Change</span></th>' in html


@pytest.mark.parametrize(("may", "count"), [(True, 2), (False, 1), (None, 1)])
def test_a_column_with_an_empty_name_is_left_out(may: bool | None, count: int) -> None:
    assert render('{% columns "Name" may|yesno:"hidden:Change," %}', may=may).count("<th ") == count


def test_a_filter_bar_fetches_the_list_again() -> None:
    html = render('{% filter_bar "/list/" "#rows" %}x{% endfilter_bar %}')
    assert 'method="get" hx-get="/list/"' in html
    assert 'hx-target="#rows" hx-select="#rows" hx-swap="outerHTML" hx-push-url="true"' in html


def test_what_is_found_by_the_server_has_a_name_and_a_value() -> None:
    assert 'name="q" value="" placeholder="Find" aria-label="Find"' in render('{% find "Find" missing.q %}')
    sent = render('{% find "Find" "x" label="Name or request" %}')
    assert 'value="x" placeholder="Find" aria-label="Name or request"' in sent


def test_what_is_found_in_the_page_is_not_sent() -> None:
    html = render('{% find "Filter" data_filter="#rows" %}')
    assert 'data-filter="#rows"' in html
    assert "name=" not in html


@pytest.mark.parametrize("choices", [["a", "b"], [("a", "a"), ("b", "b")]])
def test_a_pick_shows_what_is_chosen(choices: list[object]) -> None:
    html = render('{% pick "site" "Site" "every site" choices "b" %}', choices=choices)
    assert 'name="site" aria-label="Site"' in html
    assert '<option value="">every site</option>' in html
    assert '<option value="a">a</option>' in html
    assert '<option value="b" selected="">b</option>' in html


def test_errors_of_a_form_are_notices() -> None:
    html = render('{% form_errors form "Not saved" %}', form=Empty({"name": "x"}))
    assert "Not saved" in html
    assert "Never right" in html
    assert "Never right" in render("{% form_errors form %}", form=Empty({"name": "x"}))
    assert render("{% form_errors form %}", form=Empty()).strip() == ""


def test_a_fact_is_a_term_and_what_it_is() -> None:
    html = render('{% fact "Devices" %}<b>8</b>{% endfact %}')
    assert html == "<div><dt>Devices</dt><dd><b>8</b></dd></div>"


def test_the_head_of_a_dialog_names_it_and_closes_it() -> None:
    html = render('{% dialog_head "stop" %}Stop\n  {{ x }}?{% enddialog_head %}', x="it")
    assert '<h2 id="stop-title">Stop it?</h2>' in html
    assert 'data-dialog-close aria-label="Close"' in html


@pytest.mark.parametrize(
    "source",
    [
        "{% card x id=x text=x label=x %}{{ x }}{% endcard %}",
        "{% table label=x css=x id=x %}{{ x }}{% endtable %}",
        "{% columns x %}",
        "{% filter_bar x x x %}{{ x }}{% endfilter_bar %}",
        "{% find x x label=x %}",
        "{% pick x x x xs x %}",
        "{% fact x %}{{ x }}{% endfact %}",
        "{% dialog_head x %}{{ x }}{% enddialog_head %}",
    ],
)
def test_everything_is_escaped(source: str) -> None:
    html = render(source, x=HOSTILE, xs=[HOSTILE, (HOSTILE, HOSTILE)])
    assert "<img" not in html
    assert "&lt;img" in html
