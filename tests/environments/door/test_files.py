"""Files by sftp and scp of OpenSSH, in a folder of this machine that stands for the home in a pod; the programs are this machine's."""

import asyncio
import inspect
import os
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest
from django.db import OperationalError

from gpuaas.environments.door.files import Coming, Files, Open
from gpuaas.environments.door.session import at_home
from gpuaas.providers.base import Size, Streams
from tests.frontend.pages.server import free_port

NAMES = ["plain", "with space", "-rf", "a'b\"c", "$HOME", "*", "ünïcode", "back\\slash"]


@dataclass(frozen=True)
class Pod:
    """home: what the client sees; here: of the laptop."""

    home: Path
    here: Path
    port: int
    options: tuple[str, ...]

    def scp(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return self._run("scp", "-q", "-P", str(self.port), *self.options, *words)

    def sftp(self, *lines: str) -> subprocess.CompletedProcess[bytes]:
        """A batch, which ends at the first line that fails."""
        words = ["-q", "-b", "-", "-P", str(self.port), *self.options, "pod@127.0.0.1"]
        return self._run("sftp", *words, given="\n".join(lines).encode())

    def _run(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, cwd=self.here, input=given, capture_output=True, check=False, timeout=60)


class Welcome(asyncssh.SSHServer):
    """Whoever comes is let in."""

    def begin_auth(self, username: str) -> bool:
        del username
        return False


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    home, here, port = tmp_path / "home", tmp_path / "here", free_port()
    home.mkdir()
    here.mkdir()
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "known").write_bytes(f"[127.0.0.1]:{port} ".encode() + key.export_public_key())
    given = ("BatchMode=yes", f"UserKnownHostsFile={tmp_path / 'known'}", "StrictHostKeyChecking=yes")
    options = ("-F", "none", *(word for each in given for word in ("-o", each)))

    async def run(script: str, words: Sequence[str], streams: Streams) -> int:
        return await ran(at_home(str(home), script, words), streams)

    async def serve(begun: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncssh.listen(
            "127.0.0.1",
            port,
            server_host_keys=[key],
            server_factory=Welcome,
            sftp_factory=lambda channel: Files(channel, run),
            encoding=None,
        )
        begun.set()
        await stop.wait()
        server.close()

    loop, begun, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(begun, stop),))
    thread.start()
    try:
        assert begun.wait(20)
        yield Pod(home, here, port, options)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


async def ran(command: Sequence[str], streams: Streams) -> int:
    """As a site runs it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    given = asyncio.ensure_future(_fed(process.stdin, streams))
    try:
        await asyncio.gather(
            _told(process.stdout, streams, is_error=False), _told(process.stderr, streams, is_error=True)
        )
        return await process.wait()
    finally:
        given.cancel()
        if process.returncode is None:
            process.kill()


async def _fed(stdin: asyncio.StreamWriter, streams: Streams) -> None:
    while content := await streams.read():
        assert not isinstance(content, Size)
        stdin.write(content)
        await stdin.drain()
    stdin.close()


async def _told(reader: asyncio.StreamReader, streams: Streams, *, is_error: bool) -> None:
    while content := await reader.read(1 << 15):
        await streams.write(content, is_error=is_error)


def test_a_file_goes_there_and_back_with_its_mode_and_time(pod: Pod) -> None:
    content = os.urandom(3_000_000)
    sent = pod.here / "weights"
    sent.write_bytes(content)
    sent.chmod(0o640)
    os.utime(sent, (1_700_000_000, 1_700_000_000))
    done = pod.scp("-p", "weights", "pod@127.0.0.1:")
    assert (done.returncode, done.stderr) == (0, b"")
    there = pod.home / "weights"
    assert there.read_bytes() == content
    assert (there.stat().st_mode & 0o777, int(there.stat().st_mtime)) == (0o640, 1_700_000_000)
    assert pod.scp("pod@127.0.0.1:weights", "back").returncode == 0
    assert (pod.here / "back").read_bytes() == content
    sent.write_bytes(b"shorter")
    assert pod.scp("weights", "pod@127.0.0.1:weights").returncode == 0
    assert there.read_bytes() == b"shorter"


def test_a_tree_with_odd_names(pod: Pod) -> None:
    for name in NAMES:
        folder = pod.here / "tree" / name
        folder.mkdir(parents=True)
        (folder / name).write_bytes(name.encode())
    (pod.here / "tree/empty").write_bytes(b"")
    done = pod.scp("-r", "tree", "pod@127.0.0.1:")
    assert (done.returncode, done.stderr) == (0, b"")
    assert tree(pod.home / "tree") == tree(pod.here / "tree")
    assert pod.scp("-r", "pod@127.0.0.1:tree", "again").returncode == 0
    assert tree(pod.here / "again") == tree(pod.here / "tree")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_done_to_files(pod: Pod) -> None:
    (pod.home / "notes").write_bytes(b"a day of work")
    done = pod.sftp(
        "mkdir runs", "rename notes runs/notes", "ln -s runs/notes link", "ln runs/notes hard", "ls -l", "pwd"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (pod.home / "link").readlink() == Path("runs/notes")
    assert (pod.home / "hard").stat().st_nlink == 2
    assert str(pod.home).encode() in done.stdout
    assert {b"runs", b"link", b"hard"} <= set(done.stdout.split())
    done = pod.sftp("rm link", "rm hard", "rm runs/notes", "rmdir runs", "chmod 600 .")
    assert (done.returncode, list(pod.home.iterdir())) == (0, [])
    assert pod.home.stat().st_mode & 0o777 == 0o600
    pod.home.chmod(0o700)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("get nothing", b"not found"),
        ("put nothing", b"stat nothing"),
        ("rmdir full", b"Failure"),
        ("rm full", b"Failure"),
        ("mkdir full", b"Failure"),
        ("put here full/none/here", b"o such file"),
        ("rename nothing other", b"o such file"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(pod: Pod, line: str, said: bytes) -> None:
    (pod.here / "here").write_bytes(b"new")
    (pod.home / "full").mkdir()
    (pod.home / "full/kept").write_bytes(b"kept")
    done = pod.sftp(line)
    assert done.returncode == 1
    assert said in done.stderr + done.stdout
    assert tree(pod.home) == {"full/kept": b"kept"}


def test_a_transfer_that_was_cut_goes_on(pod: Pod) -> None:
    content = os.urandom(500_000)
    (pod.here / "data").write_bytes(content)
    (pod.home / "data").write_bytes(content[:200_000])
    assert pod.sftp("reput data").returncode == 0
    assert (pod.home / "data").read_bytes() == content
    (pod.here / "data").write_bytes(content[:300_000])
    assert pod.sftp("reget data").returncode == 0
    assert (pod.here / "data").read_bytes() == content


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said(pod: Pod) -> None:
    (pod.here / "data").write_bytes(os.urandom(500_000))
    (pod.home / "data").symlink_to("/dev/full")
    done = pod.sftp("put data")
    assert done.returncode == 1
    assert b"Failure" in done.stderr + done.stdout or b"o space left" in done.stderr + done.stdout


def test_nothing_is_asked_of_the_doors_own_files() -> None:
    """asyncssh's server would answer from the machine that it runs on."""
    methods = {
        name
        for name, member in inspect.getmembers(asyncssh.SFTPServer, inspect.isfunction)
        if not name.startswith("_")
    }
    harmless = {"convert_attrs", "format_longname"}  # of what was answered
    assert {name for name in methods - harmless if name not in vars(Files)} == set()


def test_a_program_that_writes_without_end_does_not_fill_the_door() -> None:
    """`stat` and the others are the image's, which may be anybody's."""
    wrote: list[int] = []

    async def run(script: str, words: Sequence[str], streams: Streams) -> int:
        del script, words
        while True:
            await streams.write(b"x" * (1 << 20), is_error=len(wrote) % 2 == 1)
            wrote.append(1)

    with pytest.raises(asyncssh.SFTPFailure, match="too much"):
        asyncio.run(Files(cast("Any", None), run).readlink(b"link"))
    assert len(wrote) < 40


def test_links_to_folders_are_links(pod: Pod) -> None:
    """`rm` takes the link away, and a rename replaces it, as people do who let `current` lead to the newest."""
    for name in ("old", "new"):
        (pod.home / name).mkdir()
    done = pod.sftp("ln -s old current", "ln -s new next", "rename next current", "ls -l")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (pod.home / "current").readlink() == Path("new")
    assert list((pod.home / "old").iterdir()) == []
    done = pod.sftp("rm current")
    assert (done.returncode, done.stderr) == (0, b"")
    assert {path.name for path in pod.home.iterdir()} == {"old", "new"}


def test_what_is_appended_is_behind_what_was_there(pod: Pod) -> None:
    """asyncssh's client begins at 0, whatever the length of the file."""
    notes = pod.home / "notes"
    notes.write_bytes(b"a day of work\n")

    async def main() -> None:
        async with (
            asyncssh.connect("127.0.0.1", pod.port, known_hosts=None, username="pod", config=None) as way,
            way.start_sftp_client() as files,
        ):
            for line in (b"one\n", b"two\n"):
                async with files.open("notes", "ab") as opened:
                    await opened.write(line)
                    await opened.write(line)

    asyncio.run(main())
    assert notes.read_bytes() == b"a day of work\none\none\ntwo\ntwo\n"


def test_nothing_that_is_written_ends_no_file(pod: Pod) -> None:
    """A program that writes an empty text, such as the rest of a buffer, goes on afterwards."""

    async def main() -> None:
        async with (
            asyncssh.connect("127.0.0.1", pod.port, known_hosts=None, username="pod", config=None) as way,
            way.start_sftp_client() as files,
            files.open("notes", "wb") as opened,
        ):
            for part in (b"", b"one\n", b"", b"two\n"):
                await opened.write(part)

    asyncio.run(main())
    assert (pod.home / "notes").read_bytes() == b"one\ntwo\n"


def test_what_is_replaced_keeps_its_mode(pod: Pod) -> None:
    """As by OpenSSH's server: a mode that the client sends is that of a new file."""
    for name, mode in (("run.sh", 0o755), ("secret", 0o600)):
        (pod.home / name).write_bytes(b"old")
        (pod.home / name).chmod(mode)
    for name in ("run.sh", "secret", "new"):
        (pod.here / name).write_bytes(b"new")
        (pod.here / name).chmod(0o640)
        assert pod.scp(name, "pod@127.0.0.1:").returncode == 0
    found = {path.name: (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) for path in pod.home.iterdir()}
    assert found == {"run.sh": (0o755, b"new"), "secret": (0o600, b"new"), "new": (0o640, b"new")}


def test_files_of_other_centuries_hide_nothing(pod: Pod) -> None:
    """The protocol has 32 bits for a time, and whoever owns a file decides what its time is."""
    for name, changed in (("early", -86_400), ("late", 1 << 33), ("plain", 86_400)):
        (pod.home / name).write_bytes(b"x")
        os.utime(pod.home / name, (changed, changed))
    listed = pod.sftp("ls -1")
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert listed.stdout.split()[-3:] == [b"early", b"late", b"plain"]
    for name in ("early", "late"):
        assert pod.sftp(f"get {name}").returncode == 0
        assert (pod.here / name).read_bytes() == b"x"


def test_what_failed_in_the_portal_is_not_for_the_client() -> None:
    async def run(script: str, words: Sequence[str], streams: Streams) -> int:
        raise OperationalError("secret")

    async def main() -> None:
        files, read, written = Files(cast("Any", None), run), Open(b"notes", Coming()), Open(b"notes")
        with pytest.raises(asyncssh.SFTPFailure, match="try again"):
            await files.readlink(b"link")
        with pytest.raises(asyncssh.SFTPFailure, match="try again"):
            await files.read(read, 0, 10)
        await files.write(written, 0, b"line")
        with pytest.raises(asyncssh.SFTPFailure, match="try again"):
            await files.close(written)

    asyncio.run(main())
