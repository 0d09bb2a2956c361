"""Buttons that cannot be pressed now, and the sentences that say why: read with the button, and seen without a pointer."""

import re

TAG = re.compile(r"<button\b[^>]*>")


def sentences_of(html: str) -> list[str]:
    """Of each button of the page that is disabled, or will be by scripts. Fails where one has none."""
    found = []
    for tag in TAG.findall(html):
        if not re.search(r"\s(?:disabled|data-blocked)(?:\s|>|=)", tag):
            continue
        named = re.search(r'aria-describedby="([^"]+)"', tag)
        assert named, f"says not why: {tag}"
        told = re.findall(rf'<(\w+)[^>]*\bid="{re.escape(named[1])}"[^>]*>(.*?)</\1>', html, re.DOTALL)
        assert len(told) == 1, f"{named[1]} is there {len(told)} times: {tag}"
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", told[0][1])).strip()
        assert re.match(r"[A-Z]\S* .* .*", text), f"no sentence: {text}"
        found.append(text)
    return found
