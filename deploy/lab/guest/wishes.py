"""Which machines there are to be: a folder with a file for each, which whoever plays the hypervisor writes and takes away."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deploy.lab.files import write_private

CLUSTER = "gpuaas-cluster"  # in a server's metadata


@dataclass(frozen=True)
class Wish:
    """One machine. network: who has the same one reaches each other; address: its own there; user_data: as Nova takes it (base64);
    meta: the server's metadata, which may change while it runs. Machines of one cluster, by that, have one /home."""

    uuid: str
    name: str
    network: str
    address: str
    user_data: str
    gpus: int = 0
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return self.meta.get(CLUSTER, self.network)

    @property
    def config(self) -> bytes:
        return base64.b64decode(self.user_data)


@dataclass(frozen=True)
class Outside:
    """A floating IP, and the machine that it leads to, by its network and its address there."""

    address: str
    network: str
    to: str


@dataclass(frozen=True)
class Flaws:
    """What is wrong at the site. disk_mib: room for changes on machines that start from now on, 0 = as much as the host has;
    ahead_s: by how many seconds the portal's clock is ahead of the machines' own."""

    disk_mib: int = 0
    ahead_s: int = 0


class Wishes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flaws = folder / "flaws.json"
        self._files, self._outside = folder / "wanted", folder / "outside"
        self._portal = folder / "portal"

    def add(self, wish: Wish) -> None:
        write_private(self._files / f"{wish.uuid}.json", json.dumps(asdict(wish)))

    def remove(self, uuid: str) -> None:
        (self._files / f"{uuid}.json").unlink(missing_ok=True)

    def clear(self) -> None:
        for uuid in self.all():
            self.remove(uuid)

    def all(self) -> dict[str, Wish]:
        return {name: Wish(**row) for name, row in _rows(self._files)}

    def outside(self, network: str) -> list[Outside]:
        """Those that lead into a network."""
        return [one for _, row in _rows(self._outside) if (one := Outside(**row)).network == network]

    @property
    def flaws(self) -> Flaws:
        return Flaws(**json.loads(self._flaws.read_text())) if self._flaws.exists() else Flaws()

    def flaws_set(self, flaws: Flaws) -> None:
        write_private(self._flaws, json.dumps(asdict(flaws)))

    @property
    def portal(self) -> str:
        """Where the portal is that machines find below /api/ of the metadata service's address; "" = nowhere."""
        return self._portal.read_text() if self._portal.exists() else ""

    def portal_set(self, url: str) -> None:
        write_private(self._portal, url.rstrip("/"))


def _rows(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield path.stem, json.loads(path.read_text())
        except FileNotFoundError:  # taken away this moment
            continue
