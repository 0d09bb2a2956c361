"""The driver `shelf`, installed as a distribution of its own: a module and the metadata that pip would write."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuaas.providers.registry import GROUP, known

SOURCE = Path(__file__).parent / "gpuaas_shelf.py"
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A distribution on the path; its modules, and what the registry knew of them, are forgotten afterwards."""
    names: list[str] = []

    def do(name: str, *, target: str, source: str) -> Path:
        home = tmp_path / name
        facts = home / f"{name}-1.0.dist-info"
        facts.mkdir(parents=True)
        (home / f"{name}.py").write_text(source, "utf-8")
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        (facts / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {target}\n", "utf-8")
        monkeypatch.syspath_prepend(str(home))
        names.append(name)
        known.cache_clear()
        return home

    yield do
    for name in names:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    known.cache_clear()


@pytest.fixture
def shelf(install: Install) -> Path:
    return install("gpuaas_shelf", target="gpuaas_shelf:KIND", source=SOURCE.read_text("utf-8"))


@pytest.fixture
def uninstall(shelf: Path) -> Callable[[], None]:
    def do() -> None:
        shutil.rmtree(shelf)
        sys.modules.pop("gpuaas_shelf", None)
        known.cache_clear()

    return do
