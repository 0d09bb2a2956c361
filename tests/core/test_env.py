"""Settings from the environment: typed, also from files, never guessed."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from gpuaas.core import env


def test_text_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  s3cret\n")
    monkeypatch.setenv("GPUAAS_X_FILE", str(tmp_path / "key"))
    assert env.text("GPUAAS_X") == "s3cret"
    assert env.words("GPUAAS_X") == ["s3cret"]
    monkeypatch.setenv("GPUAAS_X", "other")
    with pytest.raises(ImproperlyConfigured, match="not both"):
        env.text("GPUAAS_X")


def test_missing_values_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match="GPUAAS_X"):
        env.text("GPUAAS_X")
    monkeypatch.setenv("GPUAAS_X_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        env.text("GPUAAS_X", "default")


@pytest.mark.parametrize(("raw", "value"), [("true", True), ("ON", True), ("0", False), ("No", False)])
def test_booleans(monkeypatch: pytest.MonkeyPatch, raw: str, value: bool) -> None:
    monkeypatch.setenv("GPUAAS_X", raw)
    assert env.boolean("GPUAAS_X", default=not value) is value


def test_numbers_and_booleans_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, words in (("X", "12\n"), ("Y", "off\n")):
        (tmp_path / name).write_text(words)
        monkeypatch.setenv(f"GPUAAS_{name}_FILE", str(tmp_path / name))
    assert env.integer("GPUAAS_X", default=7) == 12
    assert env.boolean("GPUAAS_Y", default=True) is False


def test_wrong_values_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUAAS_X", "maybe")
    with pytest.raises(ImproperlyConfigured, match="boolean"):
        env.boolean("GPUAAS_X", default=True)
    with pytest.raises(ImproperlyConfigured, match="whole number"):
        env.integer("GPUAAS_X", default=1)
    monkeypatch.setenv("GPUAAS_X", "0")
    with pytest.raises(ImproperlyConfigured, match="below 1"):
        env.integer("GPUAAS_X", default=1, minimum=1)
    monkeypatch.setenv("GPUAAS_X", "1000000")
    with pytest.raises(ImproperlyConfigured, match="GPUAAS_X=1000000 is above 36500"):
        env.integer("GPUAAS_X", default=1, maximum=36_500)
    assert env.integer("GPUAAS_Y", default=7) == 7
    assert env.boolean("GPUAAS_Y", default=True)


def test_words_and_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUAAS_X", " a, b,,c ")
    assert env.words("GPUAAS_X") == ["a", "b", "c"]
    monkeypatch.setenv("GPUAAS_X", "postgres://u@%2Frun%2Fpg/db")
    assert env.database("GPUAAS_X")["HOST"] == "/run/pg"
    for wrong in ("sqlite:///x.db", "mysql://u@h/db"):
        monkeypatch.setenv("GPUAAS_X", wrong)
        with pytest.raises(ImproperlyConfigured, match="GPUAAS_X"):
            env.database("GPUAAS_X")


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("", None),
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("fd00::7:91", ("fd00::7", 91)),
    ],
)
def test_addresses_to_listen_on(
    monkeypatch: pytest.MonkeyPatch, raw: str, found: tuple[str, int] | None
) -> None:
    monkeypatch.setenv("GPUAAS_X", raw)
    assert env.address("GPUAAS_X") == found


@pytest.mark.parametrize("raw", ["9100", ":9100", "host", "host:", "host:99999", "host:x"])
def test_what_is_no_address_stops_the_start(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GPUAAS_X", raw)
    with pytest.raises(ImproperlyConfigured, match="HOST:PORT"):
        env.address("GPUAAS_X")
