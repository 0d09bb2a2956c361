"""What every lab is: a folder with all of its state, one process at a time that changes it, and what a person chose."""

import contextlib
import dataclasses
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

from deploy.lab.files import wait_limit, write_private
from deploy.lab.gobuild import Report
from deploy.lab.holds import forget, hold
from deploy.lab.leftovers import leftovers_end, of_lab
from deploy.lab.locks import locked


def print_report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class BaseLab(ABC):
    """Everything of one lab is in its state folder, so that any process can take it over from any other."""

    lock_waits = 10  # for how many parts of a start another process may hold the lab

    def __init__(self, state_dir: Path | str, report: Report) -> None:
        self.state_dir = Path(state_dir).absolute()
        self._report = report

    def down(self, *, purge: bool = False, unless: Callable[[], bool] = lambda: False) -> None:
        """Stops what this lab started and nothing else; what it stored stays unless it is purged. `unless` is asked when no other
        process can change the lab any more."""
        if not self.state_dir.exists():
            return
        with self._locked():
            if unless():
                return
            try:
                self._stop_all()
            finally:
                leftovers_end(of_lab(self.state_dir))
            forget(self.state_dir)
            if purge:
                shutil.rmtree(self.state_dir, ignore_errors=True)

    @abstractmethod
    def _stop_all(self) -> None: ...

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """A run of the tests that changes the lab uses it from then on."""
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.state_dir / ".lock", limit=self.lock_waits * wait_limit()):
            hold(self.state_dir, f"{type(self).__module__}:{type(self).__qualname__}")
            yield


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choices:
    """What a person chose for a lab; it outlives the process. None given to `changed` means: as before."""

    own_topology: ClassVar[Path]
    topology: str = ""  # a file; empty: the lab's own

    @classmethod
    def load(cls, path: Path) -> Self:
        """The saved choices, or the defaults where there are none or a newer lab wrote other names."""
        try:
            saved = json.loads(path.read_text())
        except (OSError, ValueError):
            return cls()
        known = {field.name for field in dataclasses.fields(cls)}
        found = cls(**{name: value for name, value in saved.items() if name in known})
        # of a checkout that is gone: a lab that is kept in the cache outlives the checkout that started it
        return found if found.topology_path.is_file() else dataclasses.replace(found, topology="")

    @property
    def topology_path(self) -> Path:
        return Path(self.topology) if self.topology else self.own_topology

    def changed(self, **given: Any) -> Self:
        return dataclasses.replace(
            self, **{name: value for name, value in given.items() if value is not None}
        )

    def save(self, path: Path) -> None:
        write_private(path, json.dumps(dataclasses.asdict(self), indent=1))
