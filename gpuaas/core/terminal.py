"""What a program has written to a terminal, as readable text."""

import re

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b[()][A-Z0-9]|\x1b.")
CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\n"), ord("\t")})


def plain(text: str) -> str:
    """Without sequences for terminals and control characters. Of a line that was overwritten, the end is used."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in SEQUENCE.sub("", text).split("\n")]
    return "\n".join(lines).translate(CONTROLS)
