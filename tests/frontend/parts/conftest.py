"""Parts without the built front end."""

from pathlib import Path

import pytest

from frontend import vite


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest of our own: these tests need no node."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        '{"src/sprite.svg": {"file": "assets/sprite.svg"}, "src/main.ts": {"file": "m.js", "css": ["m.css"]}}'
    )
    for name in ("asset", "styles", "preloads"):
        found = getattr(vite, name)
        monkeypatch.setattr(vite, name, lambda entry, found=found: found(entry, manifest))
