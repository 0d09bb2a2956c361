"""`{% load layout %}`: frames that pages are made of: cards, tables, filter bars, facts, heads of dialogs, errors."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms, template
from django.template.context import Context
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from frontend.doors import CHECK
from frontend.lists import Head, Listed
from frontend.templatetags.console import Data, attributes, one_line

register = template.Library()


@register.simple_block_tag
def card(content: SafeString, title: str = "", id: str = "", text: str = "", **extra: object) -> SafeString:
    """A section with a frame. A title makes its header, and with `id` its name; text stands beside the title.

    Without a title the block writes its own header; `label` is then its name for who does not see it.
    """
    if "label" in extra:
        extra["aria_label"] = extra.pop("label")
    if id:
        extra["aria_labelledby"] = f"{id}-title"
    header = format_html("")
    if title:
        named = attributes({"id": f"{id}-title" if id else ""})
        note = format_html("<p>{}</p>", text) if text else ""
        header = format_html('<div class="card-header"><h2{}>{}</h2>{}</div>\n', named, title, note)
    return format_html('<section class="card"{}>\n{}{}</section>', attributes(extra), header, content)


@register.simple_tag
def why(url: str = "", id: str = "why") -> SafeString:
    """Beside the button of a form whose view is `checked`: a script asks there what would be refused, and disables the button.
    The hints of such a form are its fields' own help texts. `url`: of another view than the page's."""
    return format_html(
        '<span class="g-reason" id="{}" data-why aria-live="polite" hx-post="{}?{}" hx-swap="innerHTML" hx-sync="this:replace" '
        'hx-trigger="intersect once, input delay:250ms from:closest form"></span>',
        id,
        url,
        CHECK,
    )


@register.simple_block_tag(takes_context=True)
def removal(
    context: Context,
    content: SafeString,
    pk: object,
    name: str,
    action: str,
    label: str,
    word: str = "Revoke",
) -> SafeString:
    """The button that takes a row of a list away, and its dialog, which so comes and goes with its row. The block's content says
    what happens."""
    data = {"id": f"{word.lower()}-{pk}", "title": f"{label} {name}?", "action": action, "label": label}
    more = {"content": content, "word": word, "of": name}
    return render_to_string("components/removal.html", data | more, request=context.get("request"))


@register.simple_block_tag
def table(
    content: SafeString, label: str = "", css: str = "g-stacked", hover: bool = False, **extra: object
) -> SafeString:
    """A table; with `label` in a region of that name, which scrolls and can be reached by keys."""
    classes = f"table table-hover {css}" if hover else f"table {css}"
    inner = format_html('<table class="{}"{}>{}</table>', classes.strip(), attributes(extra), content)
    if not label:
        return inner
    return format_html(
        '<div class="g-scroll" tabindex="0" role="region" aria-label="{}">\n{}\n</div>', label, inner
    )


def heading(column: object) -> SafeString:
    kind, mark, text = str(column).partition(":")
    if mark and kind == "num":
        return format_html('<th scope="col" class="g-num">{}</th>', text)
    if mark and kind == "hidden":
        return format_html('<th scope="col"><span class="visually-hidden">{}</span></th>', text)
    return format_html('<th scope="col">{}</th>', str(column))


@register.simple_tag
def head(column: Head) -> SafeString:
    """The head of a column of a list; a link that sorts by it, and turns the order round."""
    told: SafeString | str = column.label
    if column.url:
        told = format_html('<a class="g-sort" href="{}">{}</a>', column.url, column.label)
    elif column.quiet:
        told = format_html('<span class="visually-hidden">{}</span>', column.label)
    kind = {"class": "g-num" if column.numeric else "", "aria_sort": column.direction}
    return format_html('<th scope="col"{}>{}</th>', attributes(kind), told)


@register.simple_tag
def columns(*names: object) -> SafeString:
    """The head of a table: `"Name" "num:GPUs" "hidden:Actions"`. A column with an empty name is left out."""
    cells = format_html_join("\n", "{}", ((heading(name),) for name in names if name))
    return format_html("<thead><tr>{}</tr></thead>", cells)


@register.simple_block_tag
def filter_bar(
    content: SafeString,
    url: str,
    target: str,
    trigger: str = "input changed delay:250ms from:find input, change",
) -> SafeString:
    """A form above a list, which fetches the list again while it is typed. Without scripts it has a button."""
    return format_html(
        '<form class="g-toolbar" method="get" hx-get="{}" hx-trigger="{}" hx-target="{}" hx-select="{}"'
        ' hx-swap="outerHTML" hx-push-url="true">{}</form>',
        url,
        trigger,
        target,
        target,
        content,
    )


@register.simple_block_tag(takes_context=True)
def listing(
    context: Context,
    content: SafeString,
    list: Listed,
    live: str = "",
    trigger: str = "",
    css: str = "g-stacked",
    bar: bool = True,
    plain: bool = False,
    target: str = "",
    **extra: object,
) -> SafeString:
    """A list with its filters, head and pages. The block draws its rows, then perhaps a `tfoot`; where there is no row at
    all, what is said instead (`{% empty %}` of its loop). `live` names what it is fetched again for; `trigger` does
    so by another event. `plain`: no table; the block draws all of it, and the order is chosen in the bar. `target`: the part
    of the page that fetches itself and has the list in it, which is what its filters fetch again."""
    data = {"list": list, "content": content, "live": live, "css": css, "bar": bar, "plain": plain}
    data["target"] = target
    data["body"] = format_html("<tbody>{}", content)  # a `tfoot` ends it
    data["trigger"] = trigger or ("live" if live else "")
    data["attributes"] = attributes(extra)
    return render_to_string("components/listing.html", data, request=context["request"])


@register.simple_block_tag(takes_context=True)
def list_bar(
    context: Context,
    content: SafeString,
    list: Listed,
    target: str = "",
    live: str = "",
    sorts: bool = False,
) -> SafeString:
    """The filters of a list alone, for a page that draws the rest in its own way: `target` is fetched again. The block is
    what else stands in the bar."""
    data = {"list": list, "target": target or f"#{list.id}", "live": live, "content": content, "sorts": sorts}
    return render_to_string("components/list_bar.html", data, request=context["request"])


@register.simple_tag
def shown_of(shown: int, count: int, url: str, what: str) -> SafeString:
    """Under the first rows of a list whose rest is on a page of its own: how many they are of how many, and the way there."""
    if count <= shown:
        return format_html("")
    return format_html(
        '<p class="card-footer">{} of {} {}. <a href="{}">View all</a></p>', shown, f"{count:,}", what, url
    )


@register.inclusion_tag("components/no_match.html")
def no_match(list: Listed) -> Data:
    """In place of the rows of a list none of which match: which filters are set, and the one to lift."""
    return {"list": list}


@register.simple_tag
def find(
    text: str, value: str | None = None, label: str = "", name: str = "q", **extra: object
) -> SafeString:
    """What is searched for in a filter bar. Without a value it has no name and is not sent: `data_filter="#rows"`."""
    sent = format_html('name="{}" value="{}" ', name, value) if value is not None else ""
    return format_html(
        '<input class="form-control form-control-sm" type="search" {}placeholder="{}" aria-label="{}"'
        ' autocomplete="off"{}>',
        sent,
        text,
        label or text,
        attributes(extra),
    )


def option(value: object, word: object, chosen: object) -> SafeString:
    return format_html(
        '<option value="{}"{}>{}</option>', value, attributes({"selected": value == chosen}), word
    )


@register.simple_tag
def pick(
    name: str, label: str, every: str, choices: Iterable[object] | None, chosen: object, **extra: object
) -> SafeString:
    """One choice in a filter bar, or every. Choices are words, or pairs of a value and its word; without any the value
    is typed."""
    if choices is None:
        return format_html(
            '<input class="form-control form-control-sm g-auto" type="search" name="{}" value="{}" placeholder="{}"'
            ' aria-label="{}, whole short name" autocomplete="off"{}>',
            name,
            chosen,
            every,
            label,
            attributes(extra),
        )
    pairs = [item if isinstance(item, tuple | list) else (item, item) for item in choices]
    return format_html(
        '<select class="form-select form-select-sm g-auto" name="{}" aria-label="{}"{}>\n'
        '<option value="">{}</option>\n{}</select>',
        name,
        label,
        attributes(extra),
        every,
        format_html_join("\n", "{}", ((option(value, word, chosen),) for value, word in pairs)),
    )


@register.inclusion_tag("components/form_errors.html", takes_context=True)
def form_errors(context: Context, form: forms.BaseForm | None, title: str = "") -> Data:
    """Errors of the form as a whole; each error is the title if none is given. Where only reading the page again helps there is
    a link to do so: to `again` of the context, where this address only takes forms."""
    errors = form.non_field_errors() if form else ()
    stale = getattr(form, "stale", False)
    return {"errors": errors, "title": title, "stale": stale, "again": context.get("again", "")}


@register.simple_block_tag
def dialog_head(content: SafeString, id: str) -> SafeString:
    """Title of the dialog of that id, with the button that closes it."""
    data = {"id": id, "title": one_line(content)}
    return render_to_string("components/dialog_head.html", data)


@register.simple_block_tag
def fact(content: SafeString, term: str) -> SafeString:
    """A term and what it is, in a list of facts (`dl`)."""
    return format_html("<div>\n<dt>{}</dt>\n<dd>{}</dd>\n</div>", term, content)
