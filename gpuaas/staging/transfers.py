"""What an order may say about the files that are moved before a job and after it. Each refusal names its field, such as
`inputs.1.url`."""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from django.db import models

from gpuaas.core.errors import UNKNOWN, Invalid, Mistakes, Unusable
from gpuaas.providers.reach import address_check, is_loopback

FIELDS: Final = ("url", "credential", "volume", "folder")
TRANSFERS_MOST = 8  # of each way
URL_MOST, FOLDER_MOST = 1000, 200
S3, HTTPS = "s3://", "https://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FOLDER = re.compile(r"[A-Za-z0-9_.-][A-Za-z0-9_. /-]*")
_USUAL = "enter an address such as s3://bucket/prefix"
Check = Callable[[str], object]  # raises Invalid


class Way(models.TextChoices):
    """Of files: to the place of a job before it runs, or from there after it."""

    IN = "in", "Inputs"
    OUT = "out", "Outputs"


FILES = tuple(f"{way}puts" for way in Way)  # of an order


def folder_check(text: str) -> None:
    if text and not _FOLDER.fullmatch(text):
        raise Invalid(
            "a folder is named from the root of the volume, without a / before it, by letters, digits and . _ / - alone"
        )
    if ".." in text.split("/"):
        raise Invalid("a folder may not contain ..")


def transfers_read(
    way: Way,
    value: Any,
    wrong: Mistakes,
    volume: Check,
    credentials: Container[str] | None,
    folder: Check = folder_check,
) -> list[dict[str, str]]:
    """As they are stored, with all FIELDS. volume, folder: what checks the name of one. credentials: names of those of the project;
    None where that is not known yet."""
    name = f"{way}puts"
    with wrong:
        if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) for each in value):
            raise Invalid.field(name, "this must be a list of what to move")
        if len(value) > TRANSFERS_MOST:
            raise Invalid.field(name, f"name at most {TRANSFERS_MOST} {name}; these are {len(value):,}")
        checks = {"url": lambda text: _url(way, text), "folder": folder, "volume": volume}
        return [_transfer(f"{name}.{at}", each, wrong, checks, credentials) for at, each in enumerate(value)]
    return []


def _transfer(
    path: str,
    given: Mapping[str, Any],
    wrong: Mistakes,
    checks: Mapping[str, Check],
    credentials: Container[str] | None,
) -> dict[str, str]:
    found = {name: given.get(name, "") for name in FIELDS}
    for name in given.keys() - found.keys():
        with wrong:
            raise Invalid.field(f"{path}.{name}", UNKNOWN)
    for name, most in {"url": URL_MOST, "credential": 40, "volume": 253, "folder": FOLDER_MOST}.items():
        with wrong:
            text = found[name]
            if type(text) is not str or not text.isprintable() or len(text) > most:
                found[name] = ""
                raise Invalid.field(f"{path}.{name}", f"this must be a text of at most {most:,} characters")
    for name, check in checks.items():
        try:
            check(found[name])
        except Invalid as error:
            with wrong:
                raise Invalid.field(f"{path}.{name}", error.message) from error
    with wrong:
        if words := _credential(found, credentials):
            raise Invalid.field(f"{path}.credential", words)
    return found


def _credential(found: Mapping[str, str], credentials: Container[str] | None) -> str:
    """Why it cannot be."""
    name = found["credential"]
    if found["url"].startswith(HTTPS):
        return "an address with https:// is read without a credential: leave this empty" if name else ""
    if not name:
        return "name a data credential of the project, with which the bucket can be reached"
    if credentials is not None and name not in credentials:
        return f"the project has no data credential {name}"
    return ""


def _url(way: Way, text: str) -> None:
    scheme = next((each for each in (S3, HTTPS) if text.startswith(each)), "")
    if not scheme or (scheme == HTTPS and way is Way.OUT):
        also = f", or one that begins with {HTTPS}" if way is Way.IN else f": outputs are moved to {S3} alone"
        raise Invalid(f"{_USUAL}{also}")
    if ".." in unquote(text).split("/"):
        raise Invalid("an address may not contain ..")
    if "@" in text.removeprefix(scheme).partition("/")[0]:
        raise Invalid("an address may not contain a user or a password: everybody in the project can read it")
    if scheme == HTTPS:
        _https(text)
    elif not _BUCKET.fullmatch(text.removeprefix(scheme).partition("/")[0]):
        raise Invalid(
            f"the name of a bucket has 3 to 63 lower-case letters, digits, hyphens and dots: {_USUAL}"
        )


def _https(text: str) -> None:
    server_check(text)
    parts = urlsplit(text)
    if parts.query or parts.fragment or "?" in text:
        raise Invalid(
            "an address may not contain ? or #: everybody in the project can read what it gives access to"
        )
    path = unquote(parts.path)  # of which rclone gets the name
    if "\x00" in path or "\ufffd" in path:
        raise Invalid("the name of the file is no text in UTF-8: rename it there")
    if path.rpartition("/")[2] in {"", "."}:
        raise Invalid("enter the address of one file")


def server_check(url: str) -> None:
    """Raises Invalid unless a mover may ask what the URL names. It runs in the tenant's namespace, behind what the site lets its pods
    reach; so names are not resolved here."""
    try:
        address_check(url)
    except Unusable as error:
        raise Invalid(error.message) from error
    host = urlsplit(url).hostname or ""
    if is_loopback(host):
        raise Invalid(f"{host} is the mover itself, which has no files")
