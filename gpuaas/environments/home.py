"""Files in the home of an environment: which paths may be asked for, the scripts that do it in the pod, and what those answer.

Paths are words of a script, never a part of it. The folder is entered first, so that what it leads to is known after all links, and
the name is used from there.
"""

import posixpath
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound
from gpuaas.providers.base import GOAL, FileEnd, FileOver, FileVerb

PATH_MOST, NAME_MOST = 1024, 255  # bytes
FILE_MOST: Final = 1 << 24
ENTRIES_MOST, LISTED_MOST = 1000, 1 << 18  # entries; bytes of what is said about them

# $1: home, $2: verb, $3: folder, $4: name. The dot keeps new lines at the end of a name, which a shell would cut off
START: Final = f"""export LC_ALL=C; cd -P -- "$1" 2>/dev/null || exit {FileEnd.MISSING}
root=$(pwd -P; echo .); root=${{root%??}}
enter() {{
if [ ! -d "./$1" ]; then [ -e "./$1" ] && exit $(({FileEnd.NO_FOLDER} + $2)); exit $(({FileEnd.MISSING} + $2)); fi
cd -P -- "./$1" 2>/dev/null || exit $(({FileEnd.DENIED} + $2))
here=$(pwd -P; echo .); here=${{here%??}}
case "$here/" in "${{root%/}}/"*) ;; *) exit $(({FileEnd.OUTSIDE} + $2));; esac
}}
enter "$3" 0; it="./$4"
"""
# no name has a slash, so the one in front of each record begins no line of a name; L: what a link leads to
LOOK: Final = "%f %s %Y %n"
SCRIPTS: Final = {
    FileVerb.LIST: f"""[ -r . ] || exit {FileEnd.DENIED}
find . -mindepth 1 -maxdepth 1 -exec stat -c '/ {LOOK}' {{}} +
find . -mindepth 1 -maxdepth 1 -type l -exec stat -L -c '/L {LOOK}' {{}} + 2>/dev/null
exit 0""",
    # $5: bytes, at most
    FileVerb.READ: f"""[ -e "$it" ] || exit {FileEnd.MISSING}
[ -f "$it" ] || exit {FileEnd.NO_FILE}
if [ -L "$it" ]; then
real=$(readlink -f -- "$it"; echo .); real=${{real%??}}
case "$real" in "${{root%/}}/"*) ;; *) exit {FileEnd.OUTSIDE};; esac
fi
[ -r "$it" ] || exit {FileEnd.DENIED}
[ "$(stat -L -c %s -- "$it")" -le "$5" ] || exit {FileEnd.LARGE}
cat -- "$it"; exit""",
    # $5: bytes that are sent, $6: another name until all of them are there, $7: a FileOver.
    # `head` needs no end of its input, which a program does not learn of before Kubernetes 1.30. A new name is taken by what fails
    # where it is taken: `ln`, or noclobber on file systems without hard links
    FileVerb.WRITE: f"""over=$7
look() {{
[ ! -L "$it" ] || exit {FileEnd.LINK}
if [ ! -e "$it" ]; then [ "$over" != {FileOver.FILE} ] || exit {FileEnd.ODD_NAME}; return 0; fi
[ -f "$it" ] || exit {FileEnd.NO_FILE}
[ "$over" != {FileOver.NOTHING} ] || exit {FileEnd.THERE}
}}
look
part="./$6"; trap 'rm -f -- "$part"' EXIT; trap 'exit 1' HUP INT TERM PIPE
set -C; head -c "$5" > "$part" || exit 1
[ "$(stat -c %s -- "$part")" = "$5" ] || exit {FileEnd.SHORT}
look
if [ -f "$it" ]; then chmod "$(stat -c %a -- "$it")" "$part" || exit 1
else ln -T -- "$part" "$it" 2>/dev/null && exit
look; [ -f "$it" ] || (: > "$it") || {{ look; exit 1; }}
fi
mv -f -- "$part" "$it"; exit""",
    FileVerb.FOLDER: f"""if [ -e "$it" ] || [ -L "$it" ]; then exit {FileEnd.THERE}; fi
mkdir -- "$it"; exit""",
    FileVerb.REMOVE: f"""if [ -d "$it" ] && [ ! -L "$it" ]; then
found=$(find "$it" -mindepth 1 -maxdepth 1 | head -c 1); [ -z "$found" ] || exit {FileEnd.NOT_EMPTY}
rmdir -- "$it"; exit
fi
if [ -e "$it" ] || [ -L "$it" ]; then rm -f -- "$it"; exit; fi
exit {FileEnd.MISSING}""",
    # $5: the folder to which it is moved, $6: its name there, which is taken as that of an upload
    FileVerb.MOVE: f"""there() {{ [ -e "$1" ] || [ -L "$1" ]; }}
there "$it" || exit {FileEnd.MISSING}
it="${{here%/}}/$4"; cd -P -- "$root" || exit 1
enter "$5" {GOAL}; to="./$6"
there "$to" && exit {FileEnd.THERE}
if [ -f "$it" ] && [ ! -L "$it" ] && ln -T -- "$it" "$to" 2>/dev/null; then rm -f -- "$it"; exit; fi
there "$to" && exit {FileEnd.THERE}
mv -n -- "$it" "$to" || exit 1
there "$it" && exit {FileEnd.THERE}
exit 0""",
}
NEW_NAME: Final = "a new name has no control characters, and no spaces around it"
SAYS: Final[dict[int, tuple[type[GpuaasError], str]]] = {
    FileEnd.MISSING: (NotFound, "there is no file or folder {it}"),
    FileEnd.OUTSIDE: (Conflict, "a link leads out of the home: use SSH for what is there"),
    FileEnd.NO_FOLDER: (Conflict, "{it} is a file, not a folder"),
    FileEnd.NO_FILE: (Conflict, "it is a folder or something else than a file"),
    FileEnd.THERE: (Conflict, "there is one of this name already"),
    FileEnd.NOT_EMPTY: (Conflict, "the folder is not empty: remove what is in it first"),
    FileEnd.LARGE: (Conflict, f"the file has more than {FILE_MOST >> 20} MiB: copy it by scp"),
    FileEnd.SHORT: (Conflict, "it did not arrive whole, so nothing was changed: try again"),
    FileEnd.LINK: (Conflict, "it is a link: replace what it leads to, or remove it first"),
    FileEnd.DENIED: (Conflict, "the account of the environment may not do that there"),
    FileEnd.ODD_NAME: (Invalid, NEW_NAME),
}
SAID: Final = (
    (re.compile(b"(?i)no space left|quota exceeded"), "the home has no room left"),
    (re.compile(b"(?i)permission denied|not permitted|read-only"), SAYS[FileEnd.DENIED][1]),
)
# as many digits as a number of 32 or 64 bits has: a container may say anything
RECORD: Final = re.compile(rb"/(L?) ([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,19}) \./([^/]+)\n(?=/|\Z)")
# a link whose end is not known, or is none
FOLDER, FILE, LINK, OTHER = "folder", "file", "link", "other"
KINDS: Final = {stat.S_IFDIR: FOLDER, stat.S_IFREG: FILE, stat.S_IFLNK: LINK}


@dataclass(frozen=True)
class Entry:
    """kind: of what a link leads to. named: whether its name can be asked for; what is no UTF-8 is shown with marks in it."""

    name: str
    kind: str
    size: int
    changed_at: datetime
    is_link: bool = False
    named: bool = True

    @property
    def is_folder(self) -> bool:
        return self.kind == FOLDER

    @property
    def is_large(self) -> bool:
        """So that the portal does not send it."""
        return self.kind == FILE and self.size > FILE_MOST


@dataclass(frozen=True)
class Folder:
    """Folders first, by name. cut: there is more in it than is listed."""

    path: str
    entries: tuple[Entry, ...]
    cut: bool = False


@dataclass(frozen=True)
class Path:
    """Of the home, without links resolved. folder: that of the last name, "." for the home."""

    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else ""

    @property
    def folder(self) -> str:
        return "/".join(self.parts[:-1]) or "."

    @property
    def is_plain(self) -> bool:
        """Whether something new may have its name."""
        return self.name.isprintable() and self.name.strip() == self.name

    def __str__(self) -> str:
        return "/".join(self.parts)


def path_read(text: str, *, at: str = "path") -> Path:
    """ "" is the home itself. Raises Invalid at that field."""
    if "\0" in text or not _is_utf8(text):
        raise Invalid.field(at, "a path is text without null characters")
    if text.startswith("/"):
        raise Invalid.field(at, "a path begins in the home, without a slash")
    parts = tuple(text.removesuffix("/").split("/")) if text else ()
    if any(part in {"", ".", ".."} for part in parts):
        raise Invalid.field(at, "a path has no empty names, and neither . nor ..")
    if len(text.encode()) > PATH_MOST or any(len(part.encode()) > NAME_MOST for part in parts):
        raise Invalid.field(at, f"a name has at most {NAME_MOST} bytes, a path {PATH_MOST}")
    return Path(parts)


def file_path_read(text: str, *, at: str = "path", new: bool = False) -> Path:
    """Of something in the home. new: it is about to be made."""
    found = path_read(text, at=at)
    if not found.parts:
        raise Invalid.field(at, "name something in the home")
    if new and not found.is_plain:
        raise Invalid.field(at, NEW_NAME)
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def command(home: str, verb: FileVerb, folder: str, name: str = "", *more: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", START + SCRIPTS[verb], "sh", home, verb, folder, name, *more)


def listed(path: Path, output: bytes, *, cut: bool) -> Folder:
    """What LIST wrote, whose last record is left out where it was cut."""
    found: dict[bytes, Entry] = {}
    for record in RECORD.finditer(output):
        if record[5] not in found and len(found) >= ENTRIES_MOST:
            cut = True
            break
        found[record[5]] = _entry(record)
    entries = sorted(found.values(), key=lambda each: (not each.is_folder, each.name.casefold(), each.name))
    return Folder(str(path), tuple(entries), cut)


def _entry(record: re.Match[bytes]) -> Entry:
    name = record[5].decode(errors="replace")
    kind = KINDS.get(stat.S_IFMT(int(record[2], 16)), OTHER)
    return Entry(
        name,
        kind,
        int(record[3]),
        _moment(int(record[4])),
        is_link=bool(record[1]) or kind == LINK,
        named=name.encode() == record[5],
    )


def _moment(seconds: int) -> datetime:
    """The nearest that a date can hold: whoever owns the file decides what its time is."""
    latest = int(datetime(9999, 12, 30, tzinfo=UTC).timestamp())
    return datetime.fromtimestamp(min(max(seconds, 0), latest), UTC)


def end_require(code: int, errors: bytes, verb: FileVerb, *words: str) -> None:
    """Raises NotFound or Conflict where a script ended with anything but 0. words: those of its command after the verb."""
    if not code:
        return
    goal = verb is FileVerb.MOVE and code - GOAL in SAYS
    if (end := code - GOAL if goal else code) in SAYS:
        kind, text = SAYS[end]
        raise kind(text.format(it=_meant(end, verb, words, goal=goal)))
    for pattern, text in SAID:
        if pattern.search(errors):
            raise Conflict(text)
    raise Conflict(f"the environment could not do it: {_words(errors) or f'its program ended with {code}'}")


def _meant(code: int, verb: FileVerb, words: Sequence[str], *, goal: bool) -> str:
    """What is not there, or no folder. What is made need not be there, only the folder for it. goal: it is that of a move."""
    folder, name, *more = (*words, "")
    if goal:
        folder, name = more[0], ""
    elif code == FileEnd.NO_FOLDER or verb in {FileVerb.WRITE, FileVerb.FOLDER}:
        name = ""
    found = posixpath.normpath(posixpath.join(folder, name))
    return "for the home" if found == "." else _printed(found)


def _words(errors: bytes) -> str:
    return " ".join(_printed(errors.decode(errors="replace").strip()[-200:]).split())


def _printed(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
