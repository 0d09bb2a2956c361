"""The commands of the labs, where nothing runs: what they say, and with which exit status."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

LABS = ("kubernetes", "openstack", "cluster_api", "node", "kueue", "trainer")


@pytest.fixture(params=LABS)
def lab(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(lab: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    cli = import_module(f"deploy.lab.{lab}.__main__").CLI
    monkeypatch.setattr(sys, "argv", [lab, *words])
    return cli.main()


def test_what_is_down_says_so(
    lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(lab, monkeypatch, "status", "--state-dir", str(tmp_path)) == 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 5
    assert all("down" in line for line in lines[:-1])
    assert lines[-1].split() == ["all", "0", "MiB"]


def test_what_cannot_be_done_is_a_sentence_and_no_trace(
    lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(lab, monkeypatch, "stop", "nothing-of-ours", "--state-dir", str(tmp_path)) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err + said.out


@pytest.mark.parametrize("command", [[], ["fly"], ["stop"], ["up", "--no-such-option"]])
def test_a_wrong_command_is_refused_with_the_right_ones(
    lab: str, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        run(lab, monkeypatch, *command)
    assert refused.value.code == 2
    assert f"usage: python -m deploy.lab.{lab}" in capsys.readouterr().err


@pytest.mark.parametrize("lab", ["kubernetes", "openstack", "node", "kueue", "trainer"])
def test_without_a_lab_there_is_nothing_to_evaluate(
    lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(lab, monkeypatch, "env", "--state-dir", str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "`up` makes one" in said.err
    assert said.out == ""
