"""Files in the home of a simulated environment: what a script of the portal would do in a pod, done in the database."""

from collections.abc import Sequence

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Count, Sum, Value
from django.db.models.functions import Concat, Length, Substr

from gpuaas.core import clock
from gpuaas.core.connections import returning
from gpuaas.providers.base import GOAL, FileEnd, FileOver, FileVerb, Streams
from gpuaas.providers.sandbox.models import SandboxClaim, SandboxFile

WORDS_BEFORE = 5  # of the words: what is to be done, after the shell with its script and the home
FOLDER_MODE, FILE_MODE = 0o40755, 0o100644
SHOWN = 4096  # bytes of a folder; each file takes them besides its content
LONGEST = 1024  # characters of a path
ROOM = 1 << 26  # bytes of a home, however large its claim is: they are in the portal's own database


def is_asked(command: Sequence[str]) -> bool:
    return len(command) > WORDS_BEFORE and command[WORDS_BEFORE] in list(FileVerb)


async def run(claim: SandboxClaim, command: Sequence[str], streams: Streams) -> int:
    """The exit code."""
    verb, folder, name, *more = command[WORDS_BEFORE:]
    content = bytearray()
    while verb == FileVerb.WRITE and len(content) < int(more[0]) and (part := await streams.read()):
        content += part if isinstance(part, bytes) else b""
    # in the thread that waits, which may be inside a transaction of a test
    code, output = await sync_to_async(returning(_done))(
        claim, FileVerb(verb), "" if folder == "." else folder, name, more, bytes(content)
    )
    if output:
        await streams.write(output, is_error=bool(code))
    return code


def _done(
    claim: SandboxClaim, verb: FileVerb, folder: str, name: str, more: Sequence[str], content: bytes
) -> tuple[int, bytes]:
    if code := _entered(claim, folder):
        return code, b""
    path = f"{folder}/{name}" if folder else name
    if verb is FileVerb.LIST:
        return 0, _listed(claim, folder)
    if verb is FileVerb.READ:
        return _read(_find(claim, path), int(more[0]))
    with transaction.atomic():
        list(SandboxClaim.objects.select_for_update().filter(pk=claim.pk))
        found = _find(claim, path)
        if verb is FileVerb.REMOVE:
            return _removed(found), b""
        if verb is FileVerb.MOVE:
            return _moved(claim, found, *more)
        if verb is FileVerb.FOLDER:
            return (FileEnd.THERE, b"") if found else _put(claim, path, is_folder=True)
        size, _, over = more
        code = FileEnd.SHORT if len(content) != int(size) else _refusal(found, FileOver(over))
        return (code, b"") if code else _put(claim, path, content=content)


def _entered(claim: SandboxClaim, folder: str) -> int:
    """0 for a folder that is there."""
    if not folder:
        return 0
    inside = _find(claim, folder)
    if inside and inside.is_folder:
        return 0
    return FileEnd.NO_FOLDER if inside else FileEnd.MISSING


def _find(claim: SandboxClaim, path: str) -> SandboxFile | None:
    return claim.files.filter(path=path).defer("content").first()


def _listed(claim: SandboxClaim, folder: str) -> bytes:
    """As `stat` writes it."""
    start = f"{folder}/" if folder else ""
    inside = claim.files.filter(path__startswith=start).alias(name=Substr("path", len(start) + 1))
    rows = inside.exclude(name__contains="/").order_by("path")
    lines = []
    for path, is_folder, size, at in rows.values_list("path", "is_folder", Length("content"), "changed_at"):
        mode, shown = (FOLDER_MODE, SHOWN) if is_folder else (FILE_MODE, size)
        lines.append(f"/ {mode:x} {shown} {int(at.timestamp())} ./{path.removeprefix(start)}\n")
    return "".join(lines).encode()


def _read(found: SandboxFile | None, most: int) -> tuple[int, bytes]:
    if found is None:
        return FileEnd.MISSING, b""
    if found.is_folder:
        return FileEnd.NO_FILE, b""
    fits = SandboxFile.objects.alias(size=Length("content")).filter(pk=found.pk, size__lte=most).exists()
    return (0, bytes(found.content)) if fits else (FileEnd.LARGE, b"")


def _refusal(found: SandboxFile | None, over: FileOver) -> int:
    """Of an upload; 0 for none."""
    if found is None:
        return FileEnd.ODD_NAME if over is FileOver.FILE else 0
    if found.is_folder:
        return FileEnd.NO_FILE
    return FileEnd.THERE if over is FileOver.NOTHING else 0


def _put(
    claim: SandboxClaim, path: str, *, is_folder: bool = False, content: bytes = b""
) -> tuple[int, bytes]:
    """An error where the home is full, as a program words it."""
    others = claim.files.exclude(path=path).aggregate(
        bytes=Sum(Length("content"), default=0), count=Count("pk")
    )
    if others["bytes"] + len(content) + (others["count"] + 1) * SHOWN > min(claim.gib << 30, ROOM):
        return 1, b"No space left on device"
    values = {"is_folder": is_folder, "content": content, "changed_at": clock.now()}
    claim.files.update_or_create(path=path, defaults=values)
    return 0, b""


def _moved(claim: SandboxClaim, found: SandboxFile | None, folder: str, name: str) -> tuple[int, bytes]:
    """With all that is below it."""
    folder = "" if folder == "." else folder
    to = f"{folder}/{name}" if folder else name
    if found is None:
        return FileEnd.MISSING, b""
    if code := _entered(claim, folder):
        return code + GOAL, b""
    if _find(claim, to):
        return FileEnd.THERE, b""
    if f"{to}/".startswith(f"{found.path}/"):
        return 1, b"cannot move it to a folder of itself"
    below = claim.files.filter(path__startswith=f"{found.path}/").alias(length=Length("path"))
    more = len(to) - len(found.path)
    if below.filter(length__gt=LONGEST - more).exists():
        return 1, b"File name too long"
    below.update(path=Concat(Value(to), Substr("path", len(found.path) + 1)))
    claim.files.filter(pk=found.pk).update(path=to)
    return 0, b""


def _removed(found: SandboxFile | None) -> int:
    if found is None:
        return FileEnd.MISSING
    if found.is_folder and found.claim.files.filter(path__startswith=f"{found.path}/").exists():
        return FileEnd.NOT_EMPTY
    found.delete()
    return 0
