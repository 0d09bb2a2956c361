"""The door's own pages: they look the same whether an environment is there or not."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from html import escape
from typing import Final

Headers = list[tuple[str, str]]
# what the door itself says stays in no cache, and tells nobody where it was said
SILENT: Headers = [("cache-control", "no-store"), ("referrer-policy", "no-referrer")]
# an address with the key behind # opens at once, and stays in no history: what stands there is never sent
SCRIPT: Final = """
const form = document.forms[0], shown = decodeURIComponent(location.hash.slice(1));
if (shown) {
  history.replaceState(null, "", location.pathname);
  form.key.value = shown;
  form.submit();
}
"""
FORM: Final = f"""<form method="post"><p><label>Key<br>
<input name="key" type="password" autocomplete="off" required autofocus></label>
<p><button>Open</button></form><script>{SCRIPT}</script>"""
HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{HASH}'; form-action 'self'; "
POLICY += "frame-ancestors 'none'; base-uri 'none'"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers = field(default_factory=list)
    body: str = ""


def page(status: int, title: str, words: str) -> Answer:
    """words: HTML."""
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    style = "<style>body{font:1rem system-ui;margin:4rem auto;max-width:32rem;padding:0 1rem;color-scheme:light dark}</style>"
    body = f"{head}{style}<h1>{escape(title)}</h1><p>{words}</p></html>"
    return Answer(status, [("content-type", "text/html; charset=utf-8"), *SILENT], body)


def nowhere() -> Answer:
    return page(404, "Not found", "There is nothing here, or nothing for you.")


@dataclass(frozen=True)
class Asleep:
    """Why there is no answer yet, or none. code: for programs. seconds: after which it is worth asking again; 0: not before
    somebody has done something about it."""

    code: str
    title: str
    words: str
    seconds: int = 0


# it is ready, and Envoy is about to learn it
MOMENT: Final = Asleep("starting", "One moment", "The environment is about to answer.", 1)
ASLEEP: Final = Asleep("not_running", "Not running", "The environment has to be started first.")


def asleep(why: Asleep, *, for_person: bool) -> Answer:
    """A page that asks again by itself; or the errors of OpenAI's API, whose clients wait as they are asked to, and no longer than
    a minute."""
    again = [("retry-after", str(why.seconds))] if why.seconds else [("x-should-retry", "false")]
    if for_person:
        answer = page(503, why.title, escape(why.words))
        again += [("refresh", str(why.seconds))] if why.seconds else []
        return Answer(503, [*answer.headers, *again], answer.body)
    error = {"message": why.words, "type": "service_unavailable", "param": None, "code": why.code}
    return Answer(503, [("content-type", "application/json"), *SILENT, *again], json.dumps({"error": error}))


def later(seconds: int) -> Answer:
    answer = page(429, "Too many tries", "Try again in a minute.")
    return Answer(429, [*answer.headers, ("retry-after", str(seconds))], answer.body)


def key_form(refusal: str = "") -> Answer:
    """Without `no-referrer`, for which browsers would hide that the form is sent by this very page."""
    answer = page(403 if refusal else 200, "Open with a key", f"{escape(refusal)}{FORM}")
    kept = [each for each in answer.headers if each[0] != "referrer-policy"]
    return Answer(
        answer.status,
        [*kept, ("referrer-policy", "same-origin"), ("content-security-policy", POLICY)],
        answer.body,
    )
