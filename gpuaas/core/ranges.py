"""Whole numbers as text in ranges, such as `0-3,7`: how Kubernetes names the indexes of a Job, and how pages do."""

from collections.abc import Iterable


def ranges_text(numbers: Iterable[int]) -> str:
    """In order, each number once."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def ranges_read(text: str, *, most: int = 10_000) -> frozenset[int]:
    """The numbers below `most`. Raises ValueError for what is no such text."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), min(int(last or first), most - 1) + 1))
    return frozenset(numbers)


def ranges_shown(text: str, most: int = 10) -> str:
    """For a sentence: `4, 17-18`, and how many more parts there are after `most`."""
    parts = text.split(",")
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more
