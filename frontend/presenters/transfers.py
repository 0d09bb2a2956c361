"""How far the files of a job are."""

from collections.abc import Mapping, Sequence
from typing import Any

from frontend.components import Meter
from gpuaas.staging.transfers import Way

UNITS = (("GiB", 30), ("MiB", 20), ("KiB", 10))
Files = tuple[tuple[str, tuple[Meter, ...]], ...]  # by the name of a way


def files_of(
    transfers: Mapping[Way, Sequence[Mapping[str, Any]]], known: Mapping[str, Any], *, over: bool
) -> Files:
    """Of those that move some. known: as a row has it in `moved`; over: the job has ended."""
    return tuple(
        (
            str(way.label),
            tuple(_meter(way, each, there=known.get(way, {}).get("done"), over=over) for each in found),
        )
        for way, found in transfers.items()
        if found
    )


def _meter(way: Way, each: Mapping[str, Any], *, there: bool | None, over: bool) -> Meter:
    place = "/".join(filter(None, (each["volume"], each["folder"])))
    label = f"{each['url']} → {place}" if way is Way.IN else f"{place} → {each['url']}"
    total, copied = each["total_bytes"], each["bytes"]
    text = f"{_gib(copied)} of {_gib(total)}, {each['files']:,} of {each['total_files']:,} files"
    if not each["total_files"]:
        text = "all was there already" if there else "nothing was copied" if over else "waits"
    return Meter(copied, limit=total, label=label, text=text)


def _gib(count: int) -> str:
    unit, size = next(((unit, 2**power) for unit, power in UNITS if count >= 2**power), ("B", 1))
    return f"{count / size:,.1f} {unit}" if size > 1 else f"{count} B"
