"""`{% load frame %}`: what the frame around every page needs: the built front end, htmx, messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django import template
from django.core.exceptions import ImproperlyConfigured
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from frontend import vite

register = template.Library()

HTMX = {
    "includeIndicatorStyles": False,
    "allowEval": False,
    "allowScriptTags": False,
    "historyCacheSize": 0,
    "refreshOnHistoryMiss": True,
    "selfRequestsOnly": True,
    "defaultSwapStyle": "outerHTML",
    "defaultSettleDelay": 0,
}


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
    """For the page of a server error, which must not fail itself."""
    try:
        return vite_styles(entry)
    except ImproperlyConfigured:
        return format_html("")


@register.simple_tag(name="vite")
def vite_script(entry: str) -> SafeString:
    """The style sheets and the module script of one entry of the built front end.

    Nothing is painted before the script has started: until then the page is as it is for who runs none.
    """
    script = '<script type="module" blocking="render" src="{}"></script>'
    return format_html("{}\n" + script, vite_styles(entry), vite.asset(entry))


@register.simple_tag
def vite_asset(name: str) -> str:
    return vite.asset(name)


@register.simple_tag
def htmx_config() -> str:
    """What htmx may do: nothing is evaluated, nothing is kept in the browser, and only our own addresses are asked."""
    return json.dumps(HTMX, separators=(",", ":"))


@register.filter
def button_kind(tags: Sequence[str]) -> str:
    """The class of a button of the sign-in pages, by the tags that the account pages give to it."""
    if {"delete", "danger"} & set(tags):
        return "btn-danger"
    return "btn-secondary" if {"secondary", "cancel", "link"} & set(tags) else "btn-primary"


@register.filter
def message_tone(tags: str) -> str:
    """The tone of a Django message."""
    tones = {"success": "ok", "info": "ok", "warning": "warn", "error": "bad"}
    return next((tones[tag] for tag in tags.split() if tag in tones), "ok")


@register.simple_tag
def sprite_url() -> str:
    return vite.asset("src/sprite.svg")
