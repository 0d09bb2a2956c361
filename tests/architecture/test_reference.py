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


def test_a_setting_is_shown_as_the_code_reads_it() -> None:
    shown = {row.name: row for row in reference.settings()}
    hours, pool, log = (shown[f"GPUAAS_{name}"] for name in ("GPU_HOURS_DAYS", "DATABASE_POOL", "LOG_JSON"))
    assert (hours.kind, hours.minimum, hours.default, hours.group) == ("integer", 31, 400, "Money")
    assert (pool.minimum, shown["GPUAAS_API_PER_MINUTE"].minimum) == (1, 0)
    assert (log.kind, log.minimum, log.default) == ("boolean", None, None), "it depends on another setting"
    assert (shown["GPUAAS_JOB_SCRIPT_DAYS"].maximum, hours.maximum) == (36_500, None)
    assert shown["GPUAAS_BACKUP_PASSPHRASE"].group == "Backups", "its name is a constant"
    assert {row.group for row in shown.values()} == set(reference.GROUPS)
    assert all(row.words for row in shown.values())


def test_every_setting_is_there() -> None:
    files = [path for room in reference.ROOMS for path in (reference.ROOT / room).rglob("*.py")]
    read = {name for path in files for name in SETTING.findall(path.read_text(encoding="utf-8"))}
    shown = SHOWN.findall((reference.FOLDER / "settings.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(name for name in read if not name.startswith("GPUAAS_TEST_"))
