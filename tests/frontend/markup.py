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
