"""What an order of a job may say. Each refusal names its field, so that a form and the API show it in place, and all are named
at once."""

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from gpuaas.core.errors import Invalid, Mistakes
from gpuaas.jobs.models import Job
from gpuaas.jobs.states import Launcher, Priority
from gpuaas.providers.base import FILES_AT, devices_refusal
from gpuaas.staging.transfers import Way, transfers_read
from gpuaas.workspaces.room import size_check

USUAL: Final[dict[str, Any]] = {
    "command": (),
    "arguments": (),
    "variables": {},
    "gpus": 0,
    "vcpus": 1,
    "memory_gib": 2,
    "volume": "",
    "mount": "",
    "deadline_seconds": None,
    "retries": 0,
    "priority": "normal",
    "tasks": 1,
    "at_once": None,
    "together": False,
    "launcher": "",
    "runtime": "",
    "inputs": (),
    "outputs": (),
    "mail": False,
    "borrow": False,
}
RETRIES_MOST = 10
TASKS_MOST = 1000
AT_ONCE_MOST = 200  # below the pods that a site lets run in a workspace by default (kubeapi/bounds.py)
ATTEMPTS_MOST = (
    1000  # of all tasks: each leaves a pod at the site, where a workspace may have 1,500 by default
)
DEADLINE_MOST = 30 * 86_400
WORDS_MOST, TEXT_MOST, VARIABLES_MOST = 200, 8192, 100
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VOLUME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_MOUNT = re.compile(r"/[a-z][A-Za-z0-9._/-]{0,200}")
# of the container's own system, which a volume would hide
_NOT_MOUNTED = ("/dev", "/proc", "/sys", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr")


def order_read(
    given: Mapping[str, Any], wrong: Mistakes, credentials: Container[str] | None = None
) -> dict[str, Any]:
    """All fields but name, workspace and gpu, as they are stored; `wrong` gets what cannot be, which then is as usual. at_once:
    None where it follows from what the workspace has bought. credentials: names of the project's, once that is known.
    """
    found, read = {**USUAL, **given}, dict(USUAL)
    with wrong:
        read["image"] = _image(found.get("image"))
    for name in ("command", "arguments"):
        with wrong:
            read[name] = _words(name, found[name])
    with wrong:
        read["variables"] = _variables(found["variables"])
    for name in Job.asks:
        with wrong:
            read[name] = size_check(name, found[name])
    with wrong:
        if words := devices_refusal(read["variables"], read["gpus"]):
            raise Invalid.field("variables", words)
    with wrong:
        read["retries"] = _whole("retries", "Retries", found["retries"], 0, RETRIES_MOST)
    with wrong:
        read["priority"] = priority_read(found["priority"])
    with wrong:
        read["mail"] = _switch("mail", found["mail"])
    with wrong:
        read["borrow"] = _borrow(found)
    _tasks(found, read, wrong)
    if (deadline := found["deadline_seconds"]) is not None:
        with wrong:
            read["deadline_seconds"] = _whole(
                "deadline_seconds", "The deadline in seconds", deadline, 1, DEADLINE_MOST
            )
    _places(found, read, wrong)
    for way in Way:
        name = f"{way}puts"
        read[name] = transfers_read(way, found[name], wrong, _volume, credentials)
    return read


def _places(found: Mapping[str, Any], read: dict[str, Any], wrong: Mistakes) -> None:
    if found["volume"] or found["mount"]:
        with wrong:
            read["volume"] = _volume(found["volume"])
        with wrong:
            read["mount"] = _mount(found["mount"])
        if read["launcher"] and read["mount"] and _meets_files(PurePosixPath(read["mount"])):
            with wrong:
                words = f"the launcher has its own files in {FILES_AT}; choose another folder, such as /data"
                raise Invalid.field("mount", words)


def _meets_files(at: PurePosixPath) -> bool:
    """Whether the folder is that of the launcher's files, is in it, or has it in it. In most images /var/run is /run."""
    if at.is_relative_to("/var/run"):
        at = PurePosixPath("/", *at.parts[2:])
    return at.is_relative_to(FILES_AT) or PurePosixPath(FILES_AT).is_relative_to(at)


def _tasks(found: Mapping[str, Any], read: dict[str, Any], wrong: Mistakes) -> None:
    with wrong:
        read["tasks"] = _whole("tasks", "Tasks", found["tasks"], 1, TASKS_MOST)
    with wrong:
        read["together"] = _switch("together", found["together"])
    with wrong:
        read["launcher"] = _launcher(found["launcher"])
    with wrong:
        read["runtime"] = _runtime(found["runtime"])
    if (at_once := found["at_once"]) is not None:
        with wrong:
            read["at_once"] = _whole("at_once", "Tasks at once", at_once, 1, AT_ONCE_MOST)
    if read["launcher"] and not found["command"]:
        with wrong:
            raise Invalid.field("command", "enter what task 0 runs, such as mpirun python train.py")
    names = ("tasks", "together", "at_once", "retries", "launcher", "runtime")
    if all(read[name] == found[name] for name in names):  # else one of them is refused already
        for field, words in _at_odds(**{name: read[name] for name in names}):
            with wrong:
                raise Invalid.field(field, words)


def _at_odds(
    tasks: int, at_once: int | None, retries: int, launcher: str, runtime: str, *, together: bool
) -> Iterator[tuple[str, str]]:
    """What cannot be together: the field, and why."""
    if launcher and not together:
        yield "launcher", "it starts tasks that run together: ask for 2 or more that do, or for no launcher"
    if runtime and not together:
        yield "runtime", "it makes tasks that run together: ask for 2 or more that do, or for no runtime"
    elif runtime and launcher:
        yield "runtime", "a runtime starts all tasks itself: ask for no launcher, or for no runtime"
    if together and tasks == 1:
        yield "together", "one task has no others: ask for 2 tasks or more, or do not run them together"
    if together and tasks > AT_ONCE_MOST:
        yield "tasks", f"at most {AT_ONCE_MOST} tasks run together; these are {tasks:,}"
    if together and at_once is not None:
        yield "at_once", "tasks that run together all run at once: leave this out"
    elif at_once is not None and at_once > tasks:
        yield (
            "at_once",
            f"there {'is 1 task' if tasks == 1 else f'are {tasks:,} tasks'}: no more can run at once",
        )
    if tasks > 1 and not together and tasks * (retries + 1) > ATTEMPTS_MOST:
        words = f"{tasks:,} tasks with {retries} {'retry' if retries == 1 else 'retries'} each may take"
        yield (
            "retries",
            f"{words} {tasks * (retries + 1):,} attempts, and a job has {ATTEMPTS_MOST:,} at most",
        )


def _borrow(found: Mapping[str, Any]) -> bool:
    """What it needs of its own namespace keeps it there."""
    borrow = _switch("borrow", found["borrow"])
    bound = next((name for name in ("volume", "inputs", "outputs") if found[name]), "")
    if borrow and bound:
        what = "mounts a volume" if bound == "volume" else "moves files"
        raise Invalid.field(
            "borrow", f"a job that {what} stays where the volume is: leave this out, or the {bound}"
        )
    return borrow


def _switch(field: str, value: Any) -> bool:
    if type(value) is not bool:
        raise Invalid.field(field, "this must be true or false")
    return value


def _launcher(value: Any) -> str:
    if type(value) is not str or value not in {"", *Launcher.values}:
        raise Invalid.field("launcher", f"leave it empty, or choose one of {', '.join(Launcher.values)}")
    return value


def _runtime(value: Any) -> str:
    """Whether the site has it is known once there is a workspace."""
    if type(value) is not str or (value and not _VOLUME.fullmatch(value)):
        raise Invalid.field("runtime", "leave it empty, or enter the name of a training runtime of the site")
    return value


def priority_read(value: Any) -> str:
    """Raises Invalid at `priority`."""
    if type(value) is not str or value not in Priority.values:
        raise Invalid.field("priority", f"choose one of {', '.join(Priority.values)}")
    return value


def _whole(name: str, label: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Invalid.field(name, f"{label} must be a whole number from {least} to {most:,}")
    return value


def _image(value: Any) -> str:
    if type(value) is not str or not _IMAGE.fullmatch(value):
        raise Invalid.field("image", "enter the name of a container image, such as ghcr.io/lab/train:3")
    return value


def _words(name: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        raise Invalid.field(name, "this must be a list of words")
    if len(value) > WORDS_MOST:
        raise Invalid.field(name, f"use at most {WORDS_MOST} words; these are {len(value):,}")
    for number, word in enumerate(value, start=1):
        _text(name, f"word {number}", word)
    return list(value)


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Invalid.field("variables", "these must be texts by their names")
    if len(value) > VARIABLES_MOST:
        raise Invalid.field("variables", f"set at most {VARIABLES_MOST} variables; these are {len(value):,}")
    for name, text in value.items():
        if type(name) is not str or not _VARIABLE.fullmatch(name):
            shown = str(name)[:64].replace("\x00", "�")
            raise Invalid.field(
                "variables",
                f"a variable is named by letters, digits and _, at most 64, and no digit comes first: {shown!r} is no name",
            )
        _text("variables", f"the value of {name}", text)
    return dict(value)


def _text(field: str, what: str, value: Any) -> None:
    if type(value) is not str:
        raise Invalid.field(field, f"{what} must be a text")
    if len(value) > TEXT_MOST:
        raise Invalid.field(field, f"{what} may have at most {TEXT_MOST:,} characters; it has {len(value):,}")
    if "\x00" in value:
        raise Invalid.field(field, f"{what} contains a null character, which no program can be given")


def _volume(value: Any) -> str:
    if not value:
        raise Invalid.field("volume", "enter the name of a volume of the workspace")
    if type(value) is not str or not _VOLUME.fullmatch(value):
        raise Invalid.field(
            "volume", "the name of a volume has lower-case letters, digits, hyphens and dots alone"
        )
    return value


def _mount(value: Any) -> str:
    usual = "choose another one, such as /data"
    if not value:
        raise Invalid.field("mount", "enter the folder where the volume is mounted, such as /data")
    if type(value) is not str or not _MOUNT.fullmatch(value):
        raise Invalid.field(
            "mount",
            "a folder starts with / and a lower-case letter, and has letters, digits and . _ / - alone, 202 at most; "
            + usual,
        )
    if ".." in value:
        raise Invalid.field("mount", f"a folder may not contain ..; {usual}")
    for each in _NOT_MOUNTED:
        if value == each or value.startswith(f"{each}/"):
            raise Invalid.field(
                "mount", f"nothing may be mounted in {each}, which belongs to the image's own system; {usual}"
            )
    return value
