"""Starts the machines that are wanted and ends those that are not, for as long as it runs."""

import hashlib
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import FrameType

from deploy.lab.errors import LabError
from deploy.lab.guest import gateway, network
from deploy.lab.guest.machine import Machine
from deploy.lab.guest.wishes import Outside, Wish, Wishes

LOOK_S = 0.5
METADATA_PORT = 80


@dataclass
class Hub:
    """A network of machines. number: of its router; leads: the floating IPs that lead into it."""

    number: int
    end: Callable[[], None]
    leads: list[Outside] = field(default_factory=list)


class Keeper:
    """All it has is in the folder and in namespaces of the folder's own name, so that a later one finds what an earlier one left."""

    def __init__(self, folder: Path, image: Path) -> None:
        self._folder, self._image = folder, image
        self._wishes = Wishes(folder)
        self._lab = lab_name(folder)
        self._machines: dict[str, Machine] = {}
        self._hubs: dict[str, Hub] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Until SIGTERM or SIGINT; nothing of it is left then."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        self.sweep()
        try:
            while not self._over.is_set():
                self.look()
                self._over.wait(LOOK_S)
        finally:
            for uuid in list(self._machines):
                self._stop(uuid)
            for network_id in list(self._hubs):
                self._close(network_id)
            self.sweep()

    def _end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._over.set()

    def look(self) -> None:
        wanted = self._wishes.all()
        for uuid in self._machines.keys() - wanted.keys():
            self._stop(uuid)
        for uuid, wish in wanted.items():
            if uuid not in self._machines:
                self._start(wish)
        for network_id in self._hubs.keys() - {wish.network for wish in wanted.values()}:
            self._close(network_id)
        for network_id, hub in self._hubs.items():
            if (leads := self._wishes.outside(network_id)) != hub.leads:
                network.outside_lead(network.hub_name(network_id, self._lab), leads)
                hub.leads = leads
        for path in (self._folder / "homes").glob("*"):
            if path.name not in {wish.home for wish in wanted.values()}:
                shutil.rmtree(path, ignore_errors=True)

    def sweep(self) -> None:
        """What one that was killed has left: its containers ended with it."""
        for name in network.namespaces(self._lab):
            network.namespace_remove(name)
        for name in ("machines", "homes"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _start(self, wish: Wish) -> None:
        hub = network.hub_name(wish.network, self._lab)
        if wish.network not in self._hubs:
            if not self._hubs:
                network.outside_make(self._lab)
            number = next(one for one in count(2) if all(hub.number != one for hub in self._hubs.values()))
            network.hub_make(hub, wish.address)
            network.outside_join(hub, self._lab, number)
            listening = network.listen_in(hub, network.METADATA, METADATA_PORT)
            self._hubs[wish.network] = Hub(number, gateway.serve(listening, self._wishes, wish.network))
        machine = machine_at(self._folder, wish, self._image)
        self._machines[wish.uuid] = machine
        try:
            machine.start(disk_mib=self._wishes.flaws.disk_mib)
        except LabError as error:
            print(f"{wish.name} does not start: {error}", flush=True)

    def _stop(self, uuid: str) -> None:
        self._machines.pop(uuid).stop()

    def _close(self, network_id: str) -> None:
        self._hubs.pop(network_id).end()
        network.namespace_remove(network.hub_name(network_id, self._lab))
        if not self._hubs:
            network.namespace_remove(network.outside_name(self._lab))


def lab_name(folder: Path) -> str:
    return hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:6]


def machine_at(folder: Path, wish: Wish, image: Path) -> Machine:
    """To look into one that another process keeps."""
    return Machine(
        folder / "machines" / wish.uuid,
        wish,
        lab=lab_name(folder),
        image=image,
        homes=folder / "homes" / wish.home,
    )
