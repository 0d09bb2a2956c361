"""Where the built front end's files are: reads the manifest once, each time in DEBUG."""

from __future__ import annotations

import json
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static

DIRECTORY = Path(__file__).resolve().parent / "static" / "frontend"
MANIFEST = DIRECTORY / "manifest.json"
PREFIX = "frontend/"

Manifest = dict[str, dict[str, object]]


_kept: dict[Path, Manifest] = {}


def manifest(path: Path = MANIFEST) -> Manifest:
    if not settings.DEBUG and path in _kept:
        return _kept[path]
    try:
        found: Manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ImproperlyConfigured(
            "The front end is not built: run `npm ci && npm run build` in frontend/."
        ) from error
    _kept[path] = found
    return found


def _entry(name: str, path: Path) -> dict[str, object]:
    found = manifest(path).get(name)
    if found is None:
        raise ImproperlyConfigured(f"The built front end has no entry {name!r}: build it again.")
    return found


def asset(name: str, path: Path = MANIFEST) -> str:
    """The URL of one built file, named by its source."""
    entry = _entry(name, path)
    if "url" not in entry:
        entry["url"] = static(PREFIX + str(entry["file"]))
    return str(entry["url"])


def styles(name: str, path: Path = MANIFEST) -> tuple[str, ...]:
    """The URLs of the style sheets that an entry needs."""
    found = _entry(name, path).get("css", [])
    return tuple(static(PREFIX + str(css)) for css in found) if isinstance(found, list) else ()


def preloads(name: str, path: Path = MANIFEST) -> tuple[str, ...]:
    """Fonts named by the entry that the first paint needs."""
    found = _entry(name, path).get("assets", [])
    files = [str(file) for file in found] if isinstance(found, list) else []
    return tuple(static(PREFIX + file) for file in files if "latin-wght" in file and "ext" not in file)
