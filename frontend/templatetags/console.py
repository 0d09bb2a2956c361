"""`{% load console %}`: every component of the console. Extra arguments become attributes: hx_post -> hx-post."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from functools import cache
from typing import Any
from zlib import crc32

from django import template
from django.core.paginator import Page
from django.forms import BoundField
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from frontend import components, fields, formats, vite
from frontend.charts import Chart
from frontend.presenters.work import Work
from gpuaas.core.looks import Tone

register = template.Library()

register.filter("money", formats.money)
register.filter("price", formats.price)
register.filter("signed", formats.signed)
register.filter("hours", formats.unit_hours)
register.filter("number", formats.number)
register.filter("gpus", formats.gpus)
register.filter("duration", formats.duration)
register.filter("gib", formats.gib)
register.filter("day", formats.day)
register.filter("ago", formats.ago)
register.filter("plain", components.plain)

Data = dict[str, object]
PAGE_KEYS = frozenset({"j", "k", "x", "t", "g", "/"})  # src/keyboard.ts
_ICON = '<svg class="g-icon" {}><use href="{}#{}"></use></svg>'


def attributes(extra: Mapping[str, object]) -> SafeString:
    """HTML attributes from keyword arguments; False and None leave one out, True writes it bare."""
    present = [
        (name.rstrip("_").replace("_", "-"), value)
        for name, value in extra.items()
        if value not in (None, False, "")
    ]
    return format_html_join(
        "", "{}", ((format_html(' {}="{}"', n, "" if v is True else v),) for n, v in present)
    )


def one_line(content: SafeString) -> SafeString:
    """Text of a block without the line breaks that it has for who reads the template."""
    return mark_safe(" ".join(content.split()))  # noqa: S308  escaped already where it was rendered


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A Tabler outline icon of icons.txt. Without a label it is decoration."""
    sprite = vite.asset("src/sprite.svg")
    if not label:
        return _decoration(sprite, name)
    return format_html(_ICON, format_html('role="img" aria-label="{}"', label), sprite, name)


@cache
def _decoration(sprite: str, name: str) -> SafeString:
    return format_html(_ICON, mark_safe('aria-hidden="true"'), sprite, name)


@register.simple_tag
def optional_url(name: str) -> str:
    """Like `url`, but empty where the room that owns the name is absent."""
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


@register.simple_tag
def url_with(name: str, **query: str | int) -> str:
    """The address of that name with a query of exactly these."""
    return f"{reverse(name)}?{urlencode(query)}"


@register.simple_tag
def resource(name: str) -> SafeString:
    """As a site counts it, `nvidia.com/gpu`: it wraps after the slash alone."""
    parts = format_html_join(mark_safe("/<wbr>"), "{}", ((part,) for part in name.split("/")))
    return format_html('<code class="g-resource">{}</code>', parts)


@register.filter
def clock(value: datetime, zone: tzinfo | None = None) -> str:
    local = formats.zoned(value, zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M}"


@register.inclusion_tag("components/glyph.html")
def glyph(tone: str, waiting: bool = False) -> Data:
    return {"tone": str(tone), "shape": "wait" if waiting else str(tone)}


@register.inclusion_tag("components/state.html")
def state(tone: str, word: str, waiting: bool = False) -> Data:
    """Glyph and word, for lists. `waiting` keeps the tone's color with the dashed ring."""
    return {"tone": str(tone), "word": word, "waiting": waiting, "filled": False}


@register.inclusion_tag("components/state.html")
def badge(tone: str, word: str, waiting: bool = False) -> Data:
    """The same, filled: only in a page head."""
    return {"tone": str(tone), "word": word, "waiting": waiting, "filled": True}


@register.simple_tag
def live(push: bool = False) -> SafeString:
    """How the connection is of a page that fetches itself. A script writes it; without scripts nothing is shown."""
    css = "g-push g-live" if push else "g-live"
    shown = '<span class="{}" data-live-state="off" data-live-words data-scripted>not connected</span>'
    return format_html(shown, css)


def key_check(key: str) -> None:
    if key.lower() in PAGE_KEYS:
        raise ValueError(f"{key} is a key of every page (frontend/src/keyboard.ts): choose another one")


@register.inclusion_tag("components/button.html")
def button(
    label: str,
    kind: str = "secondary",
    icon: str = "",
    href: str = "",
    key: str = "",
    size: str = "",
    disabled: str = "",
    type: str = "button",
    only_icon: bool = False,
    blocked: str = "",
    **extra: object,
) -> Data:
    """kind: primary, secondary, ghost, danger (outlined), delete (filled). disabled: the sentence that says why, which stands
    beside it and is read out with it.

    blocked: why the form would be refused now, a sentence too; scripts disable it, without them the server answers.
    `data_dialog` opens that dialog: by a link to it, so that it opens without scripts too.
    """
    key_check(key)
    if dialog := extra.get("data_dialog"):
        href, extra["role"] = f"#{dialog}", "button"
    reason = blocked or disabled
    return {
        "label": label,
        "kind": kind,
        "icon_name": icon,
        "href": href,
        "key": key,
        "size": size,
        "disabled": bool(disabled),
        "reason": reason,
        "reason_id": f"why-{crc32(f'{label} {reason} {sorted(extra.items())}'.encode()):08x}",
        "blocked": bool(blocked),
        "type": type,
        "only_icon": only_icon,
        "attributes": attributes(extra),
    }


@register.inclusion_tag("components/actions.html")
def actions(items: Sequence[components.Action], size: str = "") -> Data:
    return {"items": items, "size": size}


@register.inclusion_tag("components/meter.html")
def meter(
    used: components.Number | components.Meter,
    held: components.Number = 0,
    asked: components.Number = 0,
    limit: components.Number | None = None,
    label: str = "",
    text: str = "",
    unit: str = "",
    budget: components.Number | None = None,
    variant: str = "row",
) -> Data:
    """variant: row (label, meter, numbers), stack (numbers above), bare (meter alone; the numbers stand beside it)."""
    if not isinstance(used, components.Meter):
        used = components.Meter(used, held, asked, limit, label, text, unit, budget)
    return {"meter": used, "variant": variant}


@register.inclusion_tag("components/legend.html")
def legend(*kinds: str) -> Data:
    """`{% legend "used:in use" "held:held, not in use" "free:left" %}`"""
    return {"entries": [kind.partition(":")[::2] for kind in kinds]}


@register.inclusion_tag("components/capacity_map.html")
def capacity_map(rows: Sequence[components.CapacityRow], id: str = "capacity") -> Data:
    return {"rows": rows, "id": id}


@register.inclusion_tag("components/timeline.html")
def timeline(steps: Sequence[components.TimelineStep]) -> Data:
    return {"bars": components.timeline_bars(steps)}


@register.simple_block_tag
def empty_state(
    content: SafeString,
    title: str,
    label: str = "",
    href: str = "",
    icon: str = "",
    more: str = "",
    more_href: str = "",
) -> SafeString:
    """Shown in place of an empty list: why it is empty, and what to do. The block's content is the text."""
    data = {"title": title, "text": one_line(content), "label": label, "href": href}
    return render_to_string(
        "components/empty.html", data | {"icon_name": icon, "more": more, "more_href": more_href}
    )


@register.inclusion_tag("components/work.html", takes_context=True)
def work(context: Context, work: Work) -> Data:
    return {"work": work, "zone": context.get("zone")}


@register.inclusion_tag("components/skeleton.html")
def skeleton(lines: int = 3) -> Data:
    return {"lines": range(lines)}


@register.inclusion_tag("components/field.html")
def field(
    bound: BoundField,
    label: str = "",
    unit: str = "",
    hint: str = "",
    note: str = "",
    stepper: bool = False,
    wide: bool = False,
    **extra: object,
) -> Data:
    """A form's field: label above, unit in the frame, the hint becomes the error. Extra arguments go to the input."""
    control = fields.control_of(bound, hint, extra)
    return {
        "bound": bound,
        "label": label or bound.label,
        "note": note,
        "unit": unit,
        "hint": hint or bound.help_text,
        "errors": control.errors,
        "help_id": control.help_id,
        "kind": control.kind,
        "control": control.html,
        "stepper": stepper,
        "wide": wide,
    }


@register.inclusion_tag("components/field_help.html")
def field_help(bound: BoundField, swap: bool = True) -> Data:
    """The text under a field, sent along with an answer: its error if the value is invalid, else its hint."""
    control = fields.control_of(bound, "", {})
    return {"errors": control.errors, "hint": bound.help_text, "help_id": control.help_id, "swap": swap}


@register.inclusion_tag("components/answer.html")
def answer(panel: components.AnswerPanel) -> Data:
    return {"panel": panel}


@register.inclusion_tag("components/notice.html")
def notice(tone: str | components.Notice, title: str = "", text: str = "") -> Data:
    if not isinstance(tone, components.Notice):
        tone = components.Notice(Tone(tone), title, text)
    return {"notice": tone}


@register.inclusion_tag("components/toast.html")
def toast(
    tone: str, title: str, text: str = "", url: str = "", label: str = "", sticky: bool = False
) -> Data:
    """Shown by the page at load, as Django messages are. A bad tone stays until closed."""
    return {
        "tone": tone,
        "title": title,
        "text": text,
        "url": url,
        "label": label,
        "sticky": sticky or tone == "bad",
    }


@register.inclusion_tag("components/copy.html")
def copy(text: str, block: bool = False, label: str = "Copy") -> Data:
    """One line, cut with an ellipsis; the copy is whole."""
    return {"text": text, "block": block, "label": label}


@register.inclusion_tag("components/stats.html")
def stats(items: Sequence[components.Stat]) -> Data:
    return {"items": items}


@register.inclusion_tag("components/facts.html")
def facts(items: Sequence[components.Fact]) -> Data:
    return {"items": items}


@register.inclusion_tag("components/pager.html", takes_context=True)
def pager(
    context: Context, page: Page[Any], what: str = "rows", parameter: str = "page", file: str = ""
) -> Data:
    """The position in a paged list; links keep the query's other parameters. `file`: where all of it is as a CSV."""
    request = context.get("request")
    query = request.GET.copy() if request is not None else None

    def link(number: int) -> str:
        if query is None:
            return f"?{parameter}={number}"
        query[parameter] = str(number)
        return f"?{query.urlencode()}"

    return {
        "page": page,
        "what": what,
        "file": file,
        "previous": link(page.previous_page_number()) if page.has_previous() else "",
        "next": link(page.next_page_number()) if page.has_next() else "",
    }


@register.inclusion_tag("components/chips.html")
def chips(items: Sequence[components.Chip]) -> Data:
    return {"items": items}


@register.inclusion_tag("components/chart.html")
def chart(chart: Chart) -> Data:
    return {"chart": chart}


@register.simple_block_tag(takes_context=True)
def confirm(
    context: Context,
    content: SafeString,
    id: str,
    title: str,
    action: str,
    label: str = "Delete",
    name: str = "",
    htmx: bool = False,
    refused: bool = False,
) -> SafeString:
    """A dialog opened by `{% button … data_dialog="<id>" %}`. With `name`, that name must be typed first.

    The block's content says what will happen; it may hold further inputs. `refused`: it is open again on a page that is drawn at
    `action`, as one is that refuses what was sent there.
    """
    request = context.get("request")
    asked = request is not None and request.method == "POST" and request.path == action
    data = {"id": id, "title": title, "action": action, "label": label, "name": name, "htmx": htmx}
    misnamed = getattr(request, "misnamed", "") if asked and name else ""
    more = {"content": content, "opened": misnamed or (asked and refused), "misnamed": misnamed}
    return render_to_string("components/confirm.html", data | more, request=request)


@register.simple_tag(takes_context=True)
def when(context: Context, value: datetime | None, relative: bool = False) -> SafeString:
    """A `time` element in the reader's zone; its title has the whole date, seconds and zone."""
    if value is None:
        return format_html("{}", formats.NONE)
    zone = context.get("zone")
    text = formats.ago(value) if relative else formats.when(value, zone)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', value.isoformat(), formats.full_when(value, zone), text
    )
