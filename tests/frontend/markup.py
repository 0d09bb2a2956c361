"""A page as it is read: how its template is laid out is no part of it."""

import re
from typing import Any

BLOCK = r"(?:td|th|p|h[1-6]|li|dt|dd|button|label|div|caption|legend)"
EDGES = re.compile(rf"(<{BLOCK}\b[^>]*>) | (?=</{BLOCK}>)")


def words(answer: Any) -> str:
    """The HTML of an answer in one line: white space only where a browser shows it."""
    return flat(answer.content.decode())


def flat(html: str) -> str:
    one_line = re.sub(r" +>", ">", re.sub(r">\s+<", "><", re.sub(r"\s+", " ", html)))
    return EDGES.sub(lambda found: found[1] or "", one_line)


def comes_back(answer: Any, dialog: str, typed: str) -> bool:
    """What was typed into a dialog and refused stands in it again, and it is open."""
    page = flat(answer.content.decode())
    found = page[page.index(f'<dialog class="g-dialog" id="{dialog}"') :].partition("</dialog>")[0]
    opened = " open>" in found[: found.index("<form")]
    return answer.status_code == 422 and opened and f'value="{typed}"' in found


def asks_again(answer: Any, dialog: str, typed: str) -> bool:
    """A wrong name comes back in its dialog, open, beside what is wrong with it. Without a dialog it stands in the page."""
    page = flat(answer.content.decode())
    found = page[page.index(f'<dialog class="g-dialog" id="{dialog}"') :] if dialog else page
    field = found[found.index('name="confirm_name"') :].partition("</p>")[0]
    opened = not dialog or " open>" in found[: found.index("<form")]
    return answer.status_code == 422 and opened and f'value="{typed}"' in field and "type " in field
