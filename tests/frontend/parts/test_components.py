"""Components: what they say to eyes and to screen readers, and that they escape what they are given."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.template import Context, Template
from django.test import RequestFactory

from frontend import components as c
from frontend import formats, nav, vite
from frontend.charts import Chart, Series
from frontend.presenters.money import day_chart, month_shown
from gpuaas.core.looks import Tone
from tests.frontend.disabled import sentences_of
from tests.frontend.markup import flat

pytestmark = pytest.mark.usefixtures("built")
HOSTILE = '<img src=x onerror="alert(1)">'


def render(source: str, **context: object) -> str:
    request = RequestFactory().get("/list/", {"state": "ready", "page": "2"})
    return Template("{% load console %}" + source).render(Context(context | {"request": request}))


def kinds(html: str) -> list[str]:
    return re.findall(r'data-kind="(\w+)"', html)


@pytest.mark.parametrize(
    ("meter", "cells"),
    [
        (c.Meter(4, 2, limit=8), "used used used used held held free free"),
        (c.Meter(1, 0, 2, limit=2), "used asked over"),
        (c.Meter(4, 2, limit=4), "used used used used over over"),
        (c.Meter(0, limit=0), "free"),
        (c.Meter(2, 1), "used used held"),
    ],
)
def test_one_gpu_is_one_cell(meter: c.Meter, cells: str) -> None:
    assert " ".join(meter.cells) == cells
    assert kinds(render("{% meter m %}", m=meter)) == cells.split()


def test_a_large_meter_is_a_bar_cut_at_the_limit() -> None:
    meter = c.Meter(30, 10, 20, limit=50)
    assert not meter.in_cells
    parts = [(part.kind, part.start, part.width) for part in meter.segments]
    assert parts == [("used", 0, 50), ("held", 50, 16.67), ("asked", 66.67, 16.67), ("over", 83.33, 16.67)]
    assert 'x="50.0%"' in render("{% meter m %}", m=meter)


def test_a_fraction_is_a_bar() -> None:
    assert not c.Meter(Decimal("1.5"), limit=4).in_cells


def test_meter_is_named_by_its_numbers() -> None:
    html = flat(render('{% meter 4 2 2 limit=8 label="H100" unit="GPUs" %}'))
    assert 'role="img" aria-label="H100: 6 + 2 of 8 GPUs"' in html


@pytest.mark.parametrize("tone", list(Tone))
def test_every_tone_has_a_glyph_and_a_word(tone: Tone) -> None:
    html = render("{% state tone 'Word' %}", tone=tone)
    assert f'data-tone="{tone}"' in html
    assert "<svg" in html
    assert "Word" in html


def test_glyph_shapes_differ() -> None:
    shapes = {re.sub(r'data-\w+="\w+"', "", render("{% glyph tone %}", tone=tone)) for tone in Tone}
    assert len(shapes) == len(Tone)


@pytest.mark.parametrize(
    "source",
    [
        "{% state 'ok' x %}",
        "{% button x href=x key=x hx_post=x %}",
        "{% button x disabled=x %}",
        "{% meter 1 limit=2 label=x text=x %}",
        "{% empty_state x label=x href=x %}{{ x }}{% endempty_state %}",
        "{% notice 'bad' x x %}",
        "{% toast 'ok' x x url=x %}",
        "{% copy x %}",
        "{% copy x block=True %}",
        "{% icon x label=x %}",
        "{% confirm id=x title=x action=x name=x %}{{ x }}{% endconfirm %}",
    ],
)
def test_nothing_gets_out_of_its_place(source: str) -> None:
    assert "<img" not in render(source, x=HOSTILE)


def test_chart_data_cannot_end_their_attribute() -> None:
    chart = Chart("cost", "Cost", ('"></script><img>',), (Series("<b>", (Decimal("1.50"),)),))
    html = render("{% chart chart %}", chart=chart)
    assert "<img>" not in html
    assert "<b>&lt;" not in html
    assert "&lt;/script&gt;" in html
    assert ">1.50<" in html, "money has all of its decimals"


def test_chart_and_table_show_the_same_numbers() -> None:
    chart = Chart(
        "cost", "Cost", ("1", "2"), (Series("a", (1, 2)), Series("b", (Decimal("0.5"), 3))), expected_from=1
    )
    assert [row[2] for row in chart.rows] == [Decimal("1.5"), 5]
    assert "expected</small>" in render("{% chart chart %}", chart=chart)


@pytest.mark.parametrize(
    ("sign", "places", "shown"),
    [
        ("€", 2, ("€3.10", "€0.00", "€4.25")),
        ("¥", 0, ("¥3", "¥0", "¥4")),
        ("KWD ", 3, ("KWD 3.100", "KWD 0.000", "KWD 4.250")),
    ],
)
def test_amounts_in_a_chart_have_the_decimals_of_their_currency(
    sign: str, places: int, shown: tuple[str, ...]
) -> None:
    """What is to come is estimated to any number of decimals."""
    now = datetime(2026, 11, 2, 12, tzinfo=UTC)
    first = date(2026, 11, 1)
    chart = day_chart(
        month=month_shown(first, now=now),
        values={"train": {first: Decimal("3.1")}},
        coming={"train": {first.replace(day=3): Decimal("4.2500001")}},
        now=now,
        sign=sign,
    )
    assert chart.data["places"] == places
    cells = re.findall(r'<td class="g-num">([^<]*)</td>', flat(render("{% chart chart %}", chart=chart)))
    assert set(cells) == set(shown)


class Form(forms.Form):
    amount = forms.IntegerField(help_text="1,312 in use")
    sure = forms.BooleanField(required=False)


def test_hint_becomes_the_error_and_is_named_by_the_input() -> None:
    fine, wrong = Form(), Form({"amount": "many"})
    assert 'aria-describedby="id_amount-help"' in render('{% field f.amount unit="GiB" %}', f=fine)
    assert "1,312 in use" in render("{% field f.amount %}", f=fine)
    html = render("{% field f.amount %}", f=wrong)
    assert 'aria-invalid="true"' in html
    assert 'id="id_amount-help"' in html
    assert "Enter a whole number." in html
    assert "1,312 in use" not in html


def test_extra_arguments_become_attributes() -> None:
    html = render('{% button "Go" hx_post="/x" data_dialog="d" autofocus=True formnovalidate=False %}')
    assert 'hx-post="/x"' in html
    assert 'data-dialog="d"' in html
    assert 'autofocus=""' in html
    assert "formnovalidate" not in html


def test_a_refused_button_says_why() -> None:
    html = render('{% button "Resize" href="/x" disabled="Another change is running." %}')
    assert " disabled" in html
    assert sentences_of(html) == ["Another change is running."]
    assert "<a " not in html


def test_timeline_puts_what_comes_after_what_runs() -> None:
    steps = (
        c.TimelineStep("a", c.StepState.DONE, 0, 10, 10),
        c.TimelineStep("b", c.StepState.RUNNING, 10, 10, 20),
        c.TimelineStep("c", c.StepState.TODO, usual=10),
    )
    bars = c.timeline_bars(steps)
    assert [(bar.start, bar.expected_start, bar.expected_width) for bar in bars] == [
        (0, 25, 0),
        (25, 50, 25),
        (75, 75, 25),
    ]
    html = render("{% timeline steps %}", steps=steps)
    assert html.count('aria-current="step"') == 1


def test_map_node_says_its_counts() -> None:
    cells = tuple(c.GpuCell(kind) for kind in (c.Amount.USED, c.Amount.USED, c.Amount.BAD))
    row = c.CapacityRow(
        "H100", "ber-1", (c.CapacityNode("n1", cells), c.CapacityNode("n2", cells)), 4, 0, 0, 2
    )
    html = render("{% capacity_map rows %}", rows=[row])
    assert 'aria-label="n1: 2 allocated, 1 unhealthy"' in html
    assert html.count('tabindex="0"') == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("4780.6", "€4,780.60"),
        (Decimal("0.00012"), "€0.00"),
        (Decimal("-207.60"), "−€207.60"),
        (0, "€0.00"),
        (Decimal("2.405"), "€2.41"),
        (None, "–"),
    ],
)
def test_money(value: formats.Value, text: str) -> None:
    assert formats.money(value, "EUR") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.02, "0.02 s"),
        (0.3, "0.3 s"),
        (6, "6 s"),
        (24.4, "24 s"),
        (4080, "1 h 8 min"),
        (187200, "2 d 4 h"),
        (0, "0 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text
    assert formats.duration(timedelta(seconds=seconds)) == text


def test_time_names_its_zone() -> None:
    moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    zone = ZoneInfo("Europe/Berlin")
    html = render("{% when moment %}", moment=moment, zone=zone)
    assert "CEST" in html
    assert "02:30" in html


def test_menu_leaves_out_what_is_not_there_and_marks_the_longest() -> None:
    assert nav.leads_to("/workspaces/", "/workspaces/7/")
    assert not nav.leads_to("/", "/workspaces/")
    assert not nav.leads_to("/work", "/workspaces/")
    assert nav.resolve(nav.Place("Gone", "frontend:no-such-room", "x"), {}) == ""


def test_unbuilt_front_end_says_how_to_build(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="npm run build"):
        vite.manifest(tmp_path / "nowhere.json")


@pytest.mark.parametrize("key", ["K", "j", "/"])
def test_no_button_takes_a_key_of_every_page(key: str) -> None:
    with pytest.raises(ValueError, match="a key of every page"):
        render(f'{{% button "Get kubeconfig" key="{key}" %}}')
