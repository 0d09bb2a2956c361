"""Answers to htmx requests that are only a message: the page stays as it is. And what keeps messages for the next page beside a
door."""

import json

from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpResponse


class HostCookie(CookieStorage):
    """That no other host can set: what is signed for one person would count in the browser of another."""

    cookie_name = "__Host-messages"


class HostMessages(FallbackStorage):
    storage_classes = (HostCookie, SessionStorage)


def header(*, tone: str, title: str, text: str = "", undo: str = "", also: str = "") -> str:
    """The value of `HX-Trigger` that shows a toast; `undo` is posted to by its button, `also` is one more event."""
    toast = {"tone": tone, "title": title, "text": text, "undo": undo}
    events = {"toast": {name: value for name, value in toast.items() if value}}
    return json.dumps(events | ({also: {}} if also else {}))


def answer(
    *, tone: str, title: str, text: str = "", undo: str = "", also: str = "", status: int = 204
) -> HttpResponse:
    headers = {"HX-Trigger": header(tone=tone, title=title, text=text, undo=undo, also=also)}
    return HttpResponse(status=status, headers=headers)
