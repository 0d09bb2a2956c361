"""Files in the home of a simulated environment: what a script of the portal would do in a pod, done in the database."""

from collections.abc import Sequence

from asgiref.sync import sync_to_async

from gpuaas.core import clock
from gpuaas.core.connections import returning
from gpuaas.providers.base import FileEnd, FileVerb, Streams
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxFile

WORDS_BEFORE = 5  # of the words: what is to be done, after the shell with its script and the home
FOLDER_MODE, FILE_MODE = 0o40755, 0o100644
SHOWN = 4096  # bytes of a folder


def is_asked(command: Sequence[str]) -> bool:
    return len(command) > WORDS_BEFORE and command[WORDS_BEFORE] in list(FileVerb)


async def run(claim: SandboxClaim, command: Sequence[str], streams: Streams) -> int:
    """The exit code."""
    verb, folder, name, *more = command[WORDS_BEFORE:]
    content = b""
    while verb == FileVerb.WRITE and len(content) < int(more[0]) and (part := await streams.read()):
        content += part if isinstance(part, bytes) else b""
    # in the thread that waits, which may be inside a transaction of a test
    code, output = await sync_to_async(returning(_done))(
        claim, FileVerb(verb), "" if folder == "." else folder, name, more, content
    )
    if output:
        await streams.write(output, is_error=False)
    return code


def _done(
    claim: SandboxClaim, verb: FileVerb, folder: str, name: str, more: Sequence[str], content: bytes
) -> tuple[int, bytes]:
    inside = claim.files.filter(path=folder).first() if folder else None
    if folder and (inside is None or not inside.is_folder):
        return (FileEnd.MISSING if inside is None else FileEnd.NO_FOLDER), b""
    if verb is FileVerb.LIST:
        return 0, _listed(claim, folder)
    path = f"{folder}/{name}" if folder else name
    found = claim.files.filter(path=path).first()
    match verb:
        case FileVerb.READ:
            return _read(found, int(more[0]))
        case FileVerb.REMOVE:
            return _removed(found), b""
        case FileVerb.FOLDER if found is None:
            claim.files.create(path=path, is_folder=True, changed_at=clock.now())
            return 0, b""
        case FileVerb.WRITE if len(content) != int(more[0]):
            return FileEnd.SHORT, b""
        case FileVerb.WRITE if found is None or (more[2] and not found.is_folder):
            claim.files.update_or_create(path=path, defaults={"content": content, "changed_at": clock.now()})
            return 0, b""
    return (FileEnd.NO_FILE if found and found.is_folder and verb is FileVerb.WRITE else FileEnd.THERE), b""


def _listed(claim: SandboxClaim, folder: str) -> bytes:
    """As `stat` writes it."""
    start = f"{folder}/" if folder else ""
    lines = []
    for row in claim.files.filter(path__startswith=start):
        name = row.path.removeprefix(start)
        if "/" not in name:
            mode, size = (FOLDER_MODE, SHOWN) if row.is_folder else (FILE_MODE, len(row.content))
            lines.append(f"/ {mode:x} {size} {int(row.changed_at.timestamp())} ./{name}\n")
    return "".join(lines).encode()


def _read(found: SandboxFile | None, most: int) -> tuple[int, bytes]:
    if found is None:
        return FileEnd.MISSING, b""
    if found.is_folder:
        return FileEnd.NO_FILE, b""
    return (0, bytes(found.content)) if len(found.content) <= most else (FileEnd.LARGE, b"")


def _removed(found: SandboxFile | None) -> int:
    if found is None:
        return FileEnd.MISSING
    if found.is_folder and found.claim.files.filter(path__startswith=f"{found.path}/").exists():
        return FileEnd.NOT_EMPTY
    found.delete()
    return 0
