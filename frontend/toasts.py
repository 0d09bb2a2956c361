"""Answers to htmx requests that are only a message: the page stays as it is."""

import json

from django.http import HttpResponse


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
