"""The scripts for files of a home, by the shells of this machine in a folder that stands for it; and the paths that may be asked."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.environments.home import (
    ENTRIES_MOST,
    FILE_MOST,
    NAME_MOST,
    PATH_MOST,
    Entry,
    command,
    end_require,
    file_path_read,
    listed,
    path_read,
)
from gpuaas.providers.base import GOAL, FileEnd, FileOver, FileVerb

NAMES = [
    "plain",
    "with space",
    "-rf",
    "a'b\"c",
    "$(touch pwned)",
    "*",
    "ünïcode",
    "back\\slash",
    "new\nline",
    "end\n",
    "L 1",
]
SHELLS = {
    os.path.realpath(found) for name in ("sh", "dash", "bash", "busybox") if (found := shutil.which(name))
}


class Home:
    """Of BusyBox all programs are taken, of other shells those of this machine. before: what is found ahead of them."""

    def __init__(self, root: Path, shell: str, programs: Path) -> None:
        self.root, self.before = root, ""
        self.program, self.path = [shell], os.environ["PATH"]
        if shell.endswith("busybox"):
            subprocess.run([shell, "--install", "-s", programs], check=True)
            self.program, self.path = [shell, "sh"], str(programs)

    @staticmethod
    def where(verb: FileVerb, path: str) -> tuple[str, ...]:
        found = path_read(path)
        return (str(found) or ".",) if verb is FileVerb.LIST else (found.folder, found.name)

    def asks(
        self, verb: FileVerb, path: str, *more: str, given: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        words = [*self.program, *command(str(self.root), verb, *self.where(verb, path), *more)[1:]]
        env = {"PATH": f"{self.before}:{self.path}".removeprefix(":")}
        return subprocess.run(words, input=given, capture_output=True, check=False, timeout=20, env=env)

    def done(self, verb: FileVerb, path: str, *more: str, given: bytes = b"") -> bytes:
        """Raises what a service would."""
        ended = self.asks(verb, path, *more, given=given)
        end_require(ended.returncode, ended.stderr, verb, *self.where(verb, path), *more)
        return ended.stdout

    def lists(self, path: str = "") -> dict[str, Entry]:
        found = listed(path_read(path), self.done(FileVerb.LIST, path), cut=False)
        return {each.name: each for each in found.entries}

    def reads(self, path: str) -> bytes:
        return self.done(FileVerb.READ, path, str(FILE_MOST))

    def writes(
        self, path: str, given: bytes, *, size: int | None = None, over: FileOver = FileOver.NOTHING
    ) -> None:
        length = len(given) if size is None else size
        self.done(FileVerb.WRITE, path, str(length), ".part", over, given=given)


@pytest.fixture(params=sorted(SHELLS))
def home(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Home]:
    """Nothing happens outside of it."""
    root = tmp_path / "home of\nalice"
    root.mkdir()
    (tmp_path / "secret").write_text("not in the home")
    (tmp_path / "home of").mkdir()
    yield Home(root, request.param, tmp_path_factory.mktemp("programs"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home of", "home of\nalice", "secret"]
    assert not list((tmp_path / "home of").iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_name(home: Home, name: str) -> None:
    content = os.urandom(70_000)
    home.writes(name, content)
    assert home.reads(name) == content
    assert list(home.lists()) == [name]
    assert home.lists()[name].size == 70_000
    home.done(FileVerb.REMOVE, name)
    home.done(FileVerb.FOLDER, name)
    home.writes(f"{name}/{name}", b"")
    assert home.lists()[name].is_folder
    assert list(home.lists(name)) == [name]
    home.done(FileVerb.REMOVE, f"{name}/{name}")
    home.done(FileVerb.REMOVE, name)
    assert not list(home.root.iterdir())


def test_folders_are_first_and_links_are_what_they_lead_to(home: Home) -> None:
    for name in ("zoo", "data"):
        (home.root / name).mkdir()
    (home.root / "a.txt").write_bytes(b"abc")
    (home.root / "also").symlink_to("data")
    (home.root / "away").symlink_to("../secret")
    (home.root / "gone").symlink_to("nothing")
    (home.root / os.fsdecode(b"latin-\xe9")).touch()
    os.mkfifo(home.root / "pipe")
    found = home.lists()
    assert list(found)[:3] == ["also", "data", "zoo"]
    assert [(found[each].kind, found[each].is_link) for each in ("also", "away", "gone", "pipe")] == [
        ("folder", True),
        ("file", True),
        ("link", True),
        ("other", False),
    ]
    assert (found["latin-\ufffd"].named, found["a.txt"].named) == (False, True)
    with pytest.raises(Conflict, match="something else than a file"):
        home.reads("pipe")


def test_it_stays_in_the_home(home: Home) -> None:
    (home.root / "away").symlink_to("../secret")
    (home.root / "up").symlink_to("..")
    (home.root / "beside").symlink_to("../home of")
    (home.root / "again").symlink_to(home.root)
    (home.root / "here.txt").write_text("here")
    (home.root / "also").symlink_to("again/here.txt")
    for path in ("away", "up/secret", "beside/secret"):
        with pytest.raises(Conflict, match="leads out of the home"):
            home.reads(path)
    for place in ("up", "beside"):
        for verb in (FileVerb.FOLDER, FileVerb.REMOVE):
            with pytest.raises(Conflict, match="leads out of the home"):
                home.done(verb, f"{place}/secret")
        with pytest.raises(Conflict, match="leads out of the home"):
            home.lists(place)
        with pytest.raises(Conflict, match="leads out of the home"):
            home.writes(f"{place}/new", b"x")
    assert home.reads("also") == home.reads("again/here.txt") == b"here"
    with pytest.raises(Conflict, match="it is a link"):
        home.writes("away", b"x", over=FileOver.EITHER)
    home.done(FileVerb.REMOVE, "up")
    home.done(FileVerb.REMOVE, "away")
    assert (home.root.parent / "secret").read_text() == "not in the home"


def test_a_file_is_there_whole_or_not_at_all(home: Home) -> None:
    with pytest.raises(Conflict, match="did not arrive whole"):
        home.writes("notes", b"half", size=9)
    assert not list(home.root.iterdir())
    home.writes("notes", b"one")
    (home.root / "notes").chmod(0o750)
    with pytest.raises(Conflict, match="one of this name already"):
        home.writes("notes", b"two")
    with pytest.raises(Conflict, match="did not arrive whole"):
        home.writes("notes", b"tw", size=3, over=FileOver.EITHER)
    assert home.reads("notes") == b"one"
    home.writes("notes", b"two", over=FileOver.EITHER)
    assert home.reads("notes") == b"two"
    assert (home.root / "notes").stat().st_mode & 0o777 == 0o750
    assert list(home.lists()) == ["notes"]
    (home.root / ".part").symlink_to("notes")
    with pytest.raises(Conflict):
        home.writes("other", b"three")
    assert (home.root / "notes").read_bytes() == b"two", "the temporary name is nobody's link"


def races(home: Home, before: Path, *, links: bool) -> None:
    """Somebody else makes `notes` after it was looked for, and before a program takes the name."""
    for name in ("ln", "mv"):
        real = "exit 1" if name == "ln" and not links else f'PATH={shlex.quote(home.path)} exec {name} "$@"'
        program = before / name
        program.write_text(f"#!/bin/sh\n[ -s notes ] || echo first > notes\n{real}\n")
        program.chmod(0o755)
    home.before = str(before)


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("over", [FileOver.NOTHING, FileOver.EITHER])
def test_of_two_that_upload_one_new_name_the_later_is_refused(
    home: Home, tmp_path_factory: pytest.TempPathFactory, over: FileOver, *, links: bool
) -> None:
    """The first one is done when the second has looked, on a file system with hard links and on one without."""
    races(home, tmp_path_factory.mktemp("before"), links=links)
    if over is FileOver.NOTHING:
        with pytest.raises(Conflict, match="one of this name already"):
            home.writes("notes", b"second", over=over)
    else:
        home.writes("notes", b"second", over=over)
    assert home.reads("notes") == (b"first\n" if over is FileOver.NOTHING else b"second")
    assert list(home.lists()) == ["notes"]


def test_a_new_name_is_one_that_can_be_read(home: Home) -> None:
    """An odd one may be replaced, where it is there."""
    with pytest.raises(Invalid, match="no control characters"):
        home.writes("odd\nname", b"one", over=FileOver.FILE)
    assert not list(home.root.iterdir())
    (home.root / "odd\nname").touch()
    home.writes("odd\nname", b"two", over=FileOver.FILE)
    assert home.reads("odd\nname") == b"two"


def test_without_hard_links_a_new_name_is_taken(home: Home, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = tmp_path_factory.mktemp("before")
    (before / "ln").write_text("#!/bin/sh\nexit 1\n")
    (before / "ln").chmod(0o755)
    home.before = str(before)
    home.writes("notes", b"one")
    assert (home.reads("notes"), list(home.lists())) == (b"one", ["notes"])


def test_what_is_moved_is_what_it_was(home: Home) -> None:
    """A file, a folder with what is in it, and a link that is not followed."""
    (home.root / "full").mkdir()
    home.writes("full/file", b"x")
    (home.root / "away").symlink_to("../secret")
    for name in NAMES:
        home.done(FileVerb.MOVE, "full/file", "full", name)
        home.done(FileVerb.MOVE, f"full/{name}", ".", "file")
        home.done(FileVerb.MOVE, "file", "full", "file")
        home.done(FileVerb.MOVE, "full", ".", name)
        home.done(FileVerb.MOVE, name, ".", "full")
    home.done(FileVerb.MOVE, "away", "full", "away")
    assert (sorted(home.lists("full")), sorted(home.lists())) == (["away", "file"], ["full"])
    assert home.reads("full/file") == b"x"
    assert (home.root / "full" / "away").readlink() == Path("../secret")


@pytest.mark.parametrize("links", [True, False])
def test_what_is_moved_overwrites_nothing(
    home: Home, tmp_path_factory: pytest.TempPathFactory, *, links: bool
) -> None:
    """Also what was made after it had looked; and it stays in the home."""
    for name in ("one", "two"):
        home.writes(name, name.encode())
    (home.root / "folder").mkdir()
    (home.root / "up").symlink_to("..")
    for path, folder, name, kind, words in (
        ("one", ".", "two", Conflict, "already"),
        ("folder", ".", "two", Conflict, "already"),
        ("one", ".", "folder", Conflict, "already"),
        ("one", ".", "one", Conflict, "already"),
        ("one", "two", "x", Conflict, "not a folder"),
        ("one", "nothing", "x", NotFound, "no file or folder nothing$"),
        ("nothing", ".", "x", NotFound, "no file or folder nothing$"),
        ("one", "up", "x", Conflict, "leads out of the home"),
        ("folder", "folder", "x", Conflict, "could not do it"),
    ):
        with pytest.raises(kind, match=words):
            home.done(FileVerb.MOVE, path, folder, name)
    races(home, tmp_path_factory.mktemp("before"), links=links)
    with pytest.raises(Conflict, match="already"):
        home.done(FileVerb.MOVE, "one", ".", "notes")
    assert (home.reads("one"), home.reads("two"), home.reads("notes")) == (b"one", b"two", b"first\n")


def test_what_cannot_be_done_is_said(home: Home) -> None:
    (home.root / "full").mkdir()
    home.writes("full/file", b"x")
    large = home.root / "large"
    large.touch()
    os.truncate(large, FILE_MOST + 1)
    for verb, path, more, kind, words in (
        (FileVerb.REMOVE, "full", (), Conflict, "not empty"),
        (FileVerb.REMOVE, "nothing", (), NotFound, "no file or folder nothing$"),
        (FileVerb.REMOVE, "nothing/at all", (), NotFound, "no file or folder nothing/at all$"),
        (FileVerb.FOLDER, "full", (), Conflict, "already"),
        (FileVerb.LIST, "full/file", (), Conflict, "^full/file is a file, not a folder"),
        (FileVerb.FOLDER, "full/file/x", (), Conflict, "^full/file is a file, not a folder"),
        (FileVerb.LIST, "nothing", (), NotFound, "no file or folder nothing$"),
        (FileVerb.LIST, "odd\nname", (), NotFound, "no file or folder odd name$"),
        (FileVerb.READ, "nothing/x", (str(FILE_MOST),), NotFound, "no file or folder nothing/x$"),
        (FileVerb.MOVE, "nothing/x", ("full", "y"), NotFound, "no file or folder nothing/x$"),
        (FileVerb.MOVE, "large", ("nothing/at", "y"), NotFound, "no file or folder nothing/at$"),
        (FileVerb.MOVE, "large", ("full/file", "y"), Conflict, "^full/file is a file, not a folder"),
        (FileVerb.READ, "full", (str(FILE_MOST),), Conflict, "it is a folder"),
        (FileVerb.READ, "large", (str(FILE_MOST),), Conflict, "more than 16 MiB"),
        (FileVerb.WRITE, "full", ("0", ".part", FileOver.EITHER), Conflict, "it is a folder"),
        (FileVerb.WRITE, "x/y", ("0", ".part", FileOver.EITHER), NotFound, "no file or folder x$"),
    ):
        with pytest.raises(kind, match=words):
            home.done(verb, path, *more)
    assert home.reads("full/file") == b"x"


def test_other_ends_are_said_in_words() -> None:
    for errors, words in (
        (b"head: error writing 'standard output': No space left on device", "no room left"),
        (b"mkdir: can't create directory './x': Read-only file system", "may not do that"),
        (b"\x1b[31mstrange\x00", "could not do it: .31mstrange"),
        (b"", "ended with 127"),
    ):
        with pytest.raises(Conflict, match=words) as caught:
            end_require(127, errors, FileVerb.LIST, ".")
        assert caught.value.message.isprintable()
    end_require(0, b"a warning", FileVerb.LIST, ".")


@pytest.mark.parametrize("verb", [verb for verb in FileVerb if verb != FileVerb.MOVE])
@pytest.mark.parametrize("end", FileEnd)
def test_only_a_move_has_ends_of_where_it_goes(verb: FileVerb, end: FileEnd) -> None:
    """Programs of the image may end with any code."""
    with pytest.raises(Conflict, match=f"its program ended with {end + GOAL}"):
        end_require(end + GOAL, b"", verb, ".")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "..",
        "a/../b",
        "a//b",
        "./a",
        ".",
        "a/.",
        "a\0b",
        "\udce9",
        "/",
        "x" * (NAME_MOST + 1),
        "é/" * 342,
    ],
)
def test_a_path_that_is_none(path: str) -> None:
    with pytest.raises(Invalid) as caught:
        path_read(path)
    assert list(caught.value.fields) == ["path"]


def test_a_path_is_one_of_the_home() -> None:
    assert (path_read("").folder, path_read("").name) == (".", "")
    assert (path_read("a/-b/c").folder, path_read("a/-b/c/").name) == ("a/-b", "c")
    assert path_read("...").name == "..."
    assert len(("é/" * 341).encode()) <= PATH_MOST
    assert path_read("é/" * 341).name == "é"
    assert file_path_read("odd\nname").name == "odd\nname"
    for new in ("odd\nname", " x", "x ", "a/\x7f", "\u202egnp.exe"):
        with pytest.raises(Invalid):
            file_path_read(new, new=True)
    with pytest.raises(Invalid):
        file_path_read("")


def test_a_long_list_is_cut_and_a_lie_is_bounded() -> None:
    many = b"".join(b"/ 81a4 1 0 ./%d\n" % number for number in range(ENTRIES_MOST + 1))
    found = listed(path_read(""), many, cut=False)
    assert (len(found.entries), found.cut) == (ENTRIES_MOST, True)
    assert not listed(path_read(""), b"/ 81a4 1 0 ./cu", cut=True).entries
    many_digits = b"/ 81a4 %s 0 ./size\n/ %s 1 0 ./mode\n/ 81a4 1 %s ./time\n" % (
        b"9" * 5000,
        b"f" * 40,
        b"9" * 20,
    )
    assert not listed(path_read(""), many_digits, cut=False).entries
    most = listed(path_read(""), b"/ ffffffff %s -%s ./most\n" % (b"9" * 19, b"9" * 19), cut=False)
    assert [(each.name, each.kind) for each in most.entries] == [("most", "other")]
    odd = listed(path_read(""), b"/ 81a4 1 99999999999999 ./late\n/ 81a4 1 -5 ./early\nnonsense", cut=False)
    assert [each.changed_at.year for each in odd.entries] == [9999]
