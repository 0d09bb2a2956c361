"""The reference is that of the code."""

import re

import pytest

from tests.architecture import reference

SETTING = re.compile(r"\"((?:GPUAAS|OTEL)_[A-Z_]+)\"")
SHOWN = re.compile(r"`((?:GPUAAS|OTEL)_[A-Z_]+)`")


@pytest.mark.parametrize("name", reference.PAGES)
def test_what_follows_from_the_code_is_current(name: str) -> None:
    """`make openapi` writes it."""
    assert (reference.FOLDER / name).read_text(encoding="utf-8") == reference.PAGES[name]()


def test_every_setting_is_there() -> None:
    files = [path for room in reference.ROOMS for path in (reference.ROOT / room).rglob("*.py")]
    read = {name for path in files for name in SETTING.findall(path.read_text(encoding="utf-8"))}
    shown = SHOWN.findall((reference.FOLDER / "settings.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(name for name in read if not name.startswith("GPUAAS_TEST_"))
