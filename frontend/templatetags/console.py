"""`{% load console %}`: every component of the console. Extra arguments become attributes: hx_post -> hx-post."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from django import template
from django.core.exceptions import ImproperlyConfigured
from django.core.paginator import Page
from django.forms import BoundField
from django.template.context import Context
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from frontend import components, fields, formats, vite
from frontend.charts import Chart

register = template.Library()

register.filter("money", formats.money)
register.filter("signed", formats.signed)
register.filter("hours", formats.unit_hours)
register.filter("number", formats.number)
register.filter("duration", formats.duration)
register.filter("gib", formats.gib)
register.filter("day", formats.day)
register.filter("ago", formats.ago)
register.filter("plain", components.plain)

Data = dict[str, object]


def attributes(extra: Mapping[str, object]) -> SafeString:
    """HTML attributes from keyword arguments; False and None leave one out, True writes it bare."""
    kept = [
        (name.rstrip("_").replace("_", "-"), value)
        for name, value in extra.items()
        if value not in (None, False, "")
    ]
    return format_html_join(
        "", "{}", ((format_html(' {}="{}"', n, "" if v is True else v),) for n, v in kept)
    )


@register.simple_tag
def vite_styles(entry: str) -> SafeString:
    fonts = format_html_join(
        "\n",
        '<link rel="preload" href="{}" as="font" type="font/woff2" crossorigin>',
        ((u,) for u in vite.preloads(entry)),
    )
    sheets = format_html_join(
        "\n", '<link rel="stylesheet" href="{}">', ((url,) for url in vite.styles(entry))
    )
    return format_html("{}\n{}", fonts, sheets)


@register.simple_tag
def vite_styles_if_built(entry: str) -> SafeString:
    """For the page that says something broke: it must not break itself."""
    try:
        return vite_styles(entry)
    except ImproperlyConfigured:
        return format_html("")


@register.simple_tag(name="vite")
def vite_script(entry: str) -> SafeString:
    """The style sheets and the module script of one entry of the built front end."""
    return format_html('{}\n<script type="module" src="{}"></script>', vite_styles(entry), vite.asset(entry))


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """A Tabler outline icon of icons.txt. Without a label it is decoration."""
    named = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="g-icon" {}><use href="{}#{}"></use></svg>', named, vite.asset("src/sprite.svg"), name
    )


@register.simple_tag
def vite_asset(name: str) -> str:
    return vite.asset(name)


@register.simple_tag
def optional_url(name: str) -> str:
    """Like `url`, but empty where the room that owns the name is absent."""
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


@register.filter
def clock(value: datetime, zone: tzinfo | None = None) -> str:
    local = formats.zoned(value, zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M}"


@register.filter
def message_tone(tags: str) -> str:
    """The tone of a Django message."""
    tones = {"success": "ok", "info": "ok", "warning": "warn", "error": "bad"}
    return next((tones[tag] for tag in tags.split() if tag in tones), "ok")


@register.simple_tag
def sprite_url() -> str:
    return vite.asset("src/sprite.svg")


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


@register.inclusion_tag("components/button.html")
def button(
    label: str,
    kind: str = "secondary",
    icon: str = "",
    href: str = "",
    key: str = "",
    size: str = "",
    disabled: bool | str = False,
    type: str = "button",
    only_icon: bool = False,
    **extra: object,
) -> Data:
    """kind: primary, secondary, ghost, danger (outlined), delete (filled). A text in `disabled` is the reason."""
    return {
        "label": label,
        "kind": kind,
        "icon_name": icon,
        "href": href,
        "key": key,
        "size": size,
        "disabled": bool(disabled),
        "reason": disabled if isinstance(disabled, str) else "",
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


@register.inclusion_tag("components/empty.html")
def empty(
    title: str,
    text: str,
    label: str = "",
    href: str = "",
    icon: str = "",
    more: str = "",
    more_href: str = "",
) -> Data:
    return {
        "title": title,
        "text": text,
        "label": label,
        "href": href,
        "icon_name": icon,
        "more": more,
        "more_href": more_href,
    }


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


@register.inclusion_tag("components/answer.html")
def answer(panel: components.AnswerPanel) -> Data:
    return {"panel": panel}


@register.inclusion_tag("components/notice.html")
def notice(tone: str | components.Notice, title: str = "", text: str = "") -> Data:
    if not isinstance(tone, components.Notice):
        tone = components.Notice(components.Tone(tone), title, text)
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
def pager(context: Context, page: Page[Any], what: str = "rows", parameter: str = "page") -> Data:
    """Where the reader is in a paged list; links keep the query's other parameters."""
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
        "previous": link(page.previous_page_number()) if page.has_previous() else "",
        "next": link(page.next_page_number()) if page.has_next() else "",
    }


@register.inclusion_tag("components/chips.html")
def chips(items: Sequence[components.Chip]) -> Data:
    return {"items": items}


@register.inclusion_tag("components/chart.html")
def chart(chart: Chart) -> Data:
    return {"chart": chart, "data_id": f"{chart.id}-data"}


@register.simple_block_tag(takes_context=True)
def confirm(
    context: Context,
    content: SafeString,
    id: str,
    title: str,
    action: str,
    label: str = "Delete",
    name: str = "",
    keep: str = "Keep it",
    htmx: bool = False,
) -> SafeString:
    """A dialog opened by `data-dialog="<id>"`. With `name`, that name must be typed first.

    The block's content says what will happen; it may hold further inputs.
    """
    data = {
        "id": id,
        "title": title,
        "action": action,
        "label": label,
        "name": name,
        "keep": keep,
        "htmx": htmx,
    }
    return render_to_string(
        "components/confirm.html", data | {"content": content}, request=context.get("request")
    )


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


@register.simple_tag(takes_context=True)
def sort_head(
    context: Context, label: str, key: str, numeric: bool = False, parameter: str = "sort"
) -> SafeString:
    """A table head that sorts: `?sort=key` or `?sort=-key`, with `aria-sort` on the cell."""
    request = context.get("request")
    query = request.GET.copy() if request is not None else None
    current = query.get(parameter, "") if query is not None else ""
    direction = {key: "ascending", f"-{key}": "descending"}.get(str(current), "none")
    target = f"-{key}" if direction == "ascending" or (numeric and direction == "none") else key
    url = f"?{parameter}={target}"
    if query is not None:
        query[parameter] = target
        url = f"?{query.urlencode()}"
    css = "g-num" if numeric else ""
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a class="g-sort" href="{}">{}</a></th>',
        css,
        direction,
        url,
        label,
    )
