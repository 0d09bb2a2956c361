"""What an order of a job may say. Each refusal names its field, so that a form and the API show it in place."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpuaas.core.errors import Invalid
from gpuaas.jobs.models import Job
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
}
RETRIES_MOST = 10
DEADLINE_MOST = 30 * 86_400
WORDS_MOST, TEXT_MOST, VARIABLES_MOST = 200, 8192, 100
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VOLUME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_MOUNT = re.compile(r"/[a-z][A-Za-z0-9._/-]{0,200}")
# of the container's own system, which a volume would hide
_NOT_MOUNTED = ("/dev", "/proc", "/sys", "/etc", "/bin", "/lib", "/usr")


def order_check(given: Mapping[str, Any]) -> dict[str, Any]:
    """All fields but name, workspace and gpu, as they are stored. Raises Invalid at the field."""
    found = {**USUAL, **given}
    checked: dict[str, Any] = {"image": _image(found.get("image"))}
    for name in ("command", "arguments"):
        checked[name] = _words(name, found[name])
    checked["variables"] = _variables(found["variables"])
    for name in Job.asks:
        checked[name] = size_check(name, found[name])
    checked["retries"] = _whole("retries", "Retries", found["retries"], 0, RETRIES_MOST)
    deadline = found["deadline_seconds"]
    if deadline is not None:
        _whole("deadline_seconds", "The deadline in seconds", deadline, 1, DEADLINE_MOST)
    checked["deadline_seconds"] = deadline
    return checked | _volume(found["volume"], found["mount"])


def _whole(name: str, label: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Invalid.field(name, f"{label} must be a whole number from {least} to {most:,}")
    return value


def _image(value: Any) -> str:
    if type(value) is not str or not _IMAGE.fullmatch(value):
        raise Invalid.field("image", "enter the name of a container image, such as ghcr.io/lab/train:3")
    return value


def _words(name: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > WORDS_MOST or not all(map(_is_text, value)):
        raise Invalid.field(
            name, f"at most {WORDS_MOST} words, each a text of at most {TEXT_MOST:,} characters"
        )
    return list(value)


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > VARIABLES_MOST:
        raise Invalid.field("variables", f"at most {VARIABLES_MOST} variables, by name")
    for name, text in value.items():
        if type(name) is not str or not _VARIABLE.fullmatch(name):
            raise Invalid.field("variables", "a variable is named by letters, digits and _")
        if not _is_text(text):
            raise Invalid.field(
                "variables", f"{name}: its value must be a text of at most {TEXT_MOST:,} characters"
            )
    return dict(value)


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= TEXT_MOST and "\x00" not in value


def _volume(volume: Any, mount: Any) -> dict[str, str]:
    if not volume and not mount:
        return {"volume": "", "mount": ""}
    if type(volume) is not str or not _VOLUME.fullmatch(volume):
        raise Invalid.field("volume", "enter the name of a volume of the workspace")
    hidden = type(mount) is str and any(
        mount == each or mount.startswith(f"{each}/") for each in _NOT_MOUNTED
    )
    if type(mount) is not str or not _MOUNT.fullmatch(mount) or ".." in mount or hidden:
        raise Invalid.field("mount", "enter the folder where the volume is mounted, such as /home/user")
    return {"volume": volume, "mount": mount}
