"""What a mover of files does, by rclone, and how far it is, by what that writes. Pure.

All that it copies is compared by checksums, and what is there already is left out: so one that is made again continues where the
one before it ended.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from gpuaas.core.errors import Conflict
from gpuaas.core.texts import storable
from gpuaas.staging.transfers import HTTPS, S3, TRANSFERS_MOST, Way

Transfer = Mapping[str, str]
MARK = "transfer"
HERE = "/proc/self/cwd"  # unlike `.`, of which rclone makes a path that may lead elsewhere by then
# $1: the folder of a volume; after it, the names that lead to what is moved. Each is entered by itself, so it stays what was looked at.
ENTER = """\
no() { printf '{"level": "error", "msg": "the folder %s"}\\n' "$1"; exit 1; }
enter() {
volume=$1; cd "$volume"; shift
for name; do
"""
ENTERED = """\
cd -P "./$name" || no "is not in its volume"
case "$(pwd -P)/" in "$volume"/*) ;; *) no "leads out of its volume" ;; esac
done
}"""
MAKES = 'mkdir -p "./$name" || no "cannot be made in its volume"\n'
VARIABLES: Final = {  # beside RCLONE_CONFIG
    "RCLONE_CACHE_DIR": "/tmp",  # noqa: S108  in its container
    "RCLONE_CHECKSUM": "true",
    "RCLONE_RETRIES": "3",
    "RCLONE_TRANSFERS": "8",
    "RCLONE_USE_JSON_LOG": "true",
    "RCLONE_STATS": "2s",
    "RCLONE_STATS_LOG_LEVEL": "NOTICE",
}
# of the counts that rclone writes, what is kept; of files and bytes those that it has to copy, without what is there already
COUNTS: Final = {
    "bytes": "bytes",
    "total_bytes": "totalBytes",
    "files": "transfers",
    "total_files": "totalTransfers",
    "checked": "checks",
}
SHOWN = ("files", "total_files", "bytes", "total_bytes")


def script_of(
    way: Way, transfers: Sequence[Transfer], places: Mapping[str, str], place: str = "its volume"
) -> str:
    """One after the other; the first that fails ends it. places: the folder of each volume, as a word of the shell; place: what people
    call one.

    A program of the tenant's may have put a link in the way, and rclone follows one on its way to where it begins: to the keys of
    the mover, for one. Below that it reads none; but a program that replaces a folder by a link just as rclone enters it can still
    lead it elsewhere.
    """
    enter = ENTER + (MAKES if way is Way.IN else "") + ENTERED
    lines = ["set -e", enter.replace("its volume", place)]
    for at, each in enumerate(transfers):
        url, names = each["url"], [name for name in each["folder"].split("/") if name]
        lines.append(f"echo {shlex.quote(json.dumps({MARK: at}))}")
        lines.append(" ".join(("enter", places[each["volume"]], *map(shlex.quote, names))))
        if url.startswith(HTTPS):
            path = unquote(urlsplit(url).path).lstrip("/")
            words = ("copyto", f"t{at}:{path}", f"{HERE}/{path.rpartition('/')[2]}")
        else:
            there = f"t{at}:{url.removeprefix(S3)}"
            words = ("copy", there, HERE) if way is Way.IN else ("copy", HERE, there)
        lines.append(shlex.join(("rclone", *words)))
    return "\n".join((*lines, ""))


def config_of(transfers: Iterable[Transfer], remotes: Mapping[str, Mapping[str, str]]) -> str:
    """A remote for each transfer, with all that is secret. remotes: by the name of a credential. Raises Conflict for one that is not
    there any more."""
    sections = []
    for at, each in enumerate(transfers):
        if each["url"].startswith(HTTPS):
            fields: Mapping[str, str] = {
                "type": "http",
                "url": f"https://{urlsplit(each['url']).netloc}",
            }
        elif each["credential"] in remotes:
            fields = remotes[each["credential"]]
        else:
            raise Conflict(
                f"the project has no data credential {each['credential']} any more: add it again, and retry"
            )
        sections.append(
            "\n".join([f"[t{at}]", *(f"{key} = {_quoted(value)}" for key, value in fields.items() if value)])
        )
    return "\n\n".join((*sections, ""))


def _quoted(value: str) -> str:
    """As rclone reads the value. It takes one that begins with a quote for a quoted one, and writes the whole line into its log where no
    other quote ends that."""
    return f'"""{value}"""' if value[0] in '`"' else value


# -- how far it is -------------------------------------------------------------------------------------------------


def progress_of(text: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """By the number of the transfer, its counts. text: the end of the log; before: what was known. Reads whatever a program
    writes."""
    found = {key: value for key, value in before.items() if key != "done"}
    at = str(max(map(int, found), default=0))
    for line in map(_line, text.splitlines()):
        if type(number := line.get(MARK)) is int and 0 <= number < TRANSFERS_MOST:
            at = str(number)
            found.setdefault(at, {})
        stats = line.get("stats")
        if isinstance(stats, dict):
            counts = {name: stats.get(theirs) for name, theirs in COUNTS.items()}
            found[at] = {
                name: each for name, each in counts.items() if type(each) is int and 0 <= each < 2**63
            }
    return found


def moved_of(transfers: Iterable[Transfer], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is to be moved, with how far it is; nothing of it is known before a mover has counted."""
    return [
        {**each, **{name: known.get(str(at), {}).get(name, 0) for name in SHOWN}}
        for at, each in enumerate(transfers)
    ]


def failure_of(text: str, way: Way, otherwise: str) -> str:
    """In a sentence, with the last error that rclone wrote, or else why it ended."""
    errors = [line for line in map(_line, text.splitlines()) if line.get("level") in ("error", "critical")]
    why = str(errors[-1].get("msg", "")).strip() if errors else otherwise
    return storable(f"its {way.label.lower()} could not be moved: {' '.join(why.split())}")[:500]


def _line(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
