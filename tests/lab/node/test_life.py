"""The lab itself: brought back after each kind of loss, beside another one, and gone without a trace."""

import os
from pathlib import Path

import pytest

from deploy.lab.commands import output_of
from deploy.lab.node import Lab, LabError, cannot_run
from deploy.lab.node.network import INTERFACES
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import LASTS, Place, pod

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]


def pids(lab: Lab) -> dict[str, int | None]:
    return {program.name: program.pid for program in lab.status()}


def test_up_again_changes_nothing(node_lab: Lab) -> None:
    before = pids(node_lab)
    node_lab.up()
    assert pids(node_lab) == before
    assert all(before.values())


@pytest.mark.parametrize("name", ["kubelet", "containerd", "kube-proxy"])
def test_a_program_that_was_killed_comes_back_and_pods_go_on(node_lab: Lab, place: Place, name: str) -> None:
    place.create(pod("lasts", LASTS))
    started = place.phase("lasts", "Running")["status"]["containerStatuses"][0]["state"]
    before = pids(node_lab)
    node_lab.stop_program(name, kill=True)
    node_lab.up()
    after = pids(node_lab)
    assert after.pop(name) not in (None, before.pop(name))
    assert after == before
    assert place.execute("lasts", "echo here") == "here\n"
    assert place.pod("lasts")["status"]["containerStatuses"][0]["state"] == started


def test_a_second_lab_stands_beside_and_leaves_nothing(node_lab: Lab, tmp_path: Path) -> None:
    before = pids(node_lab)
    other = Lab(state_dir=tmp_path / "other")
    try:
        other.up()
        interface, groups = other.network.interface, other.machine.groups.paths()
        assert other.network != node_lab.network
        assert (INTERFACES / interface).exists()
        assert all(path.exists() for path in groups)
        Kubectl(other.control).run("create", "namespace", "kept")
        other.stop_program("node")  # its plug is pulled
        assert left_behind(other, interface, groups, besides=("kubernetes",)) == []
        other.up()
        assert Kubectl(other.control).get("namespace", "kept")
        interface, groups = other.network.interface, other.machine.groups.paths()
    finally:
        other.down(purge=True)
    assert left_behind(other, interface, groups) == []
    assert not (tmp_path / "other").exists()
    with pytest.raises(LabError, match="there is no node"):
        _ = other.network
    assert pids(node_lab) == before


@pytest.mark.parametrize("lost", ["the way to pods", "what was written down of process 1"])
def test_a_start_that_was_cut_short_is_made_whole(node_lab: Lab, lost: str) -> None:
    """As by a kill at that very moment."""
    if lost == "the way to pods":
        output_of("ip", "route", "delete", node_lab.network.pods)
    else:
        (node_lab.state_dir / "run" / "node.json").unlink()
    node_lab.up()
    assert all(pids(node_lab).values())
    assert node_lab.network.is_plugged
    assert programs_in(node_lab.machine.groups.paths()[0]).count("unshare") == 1, "the one before is gone"


def programs_in(group: Path) -> list[str]:
    return [
        Path(f"/proc/{pid}/comm").read_text().strip() for pid in (group / "cgroup.procs").read_text().split()
    ]


def left_behind(lab: Lab, interface: str, groups: list[Path], *, besides: tuple[str, ...] = ()) -> list[str]:
    """Processes, mounts, groups and interfaces of it. besides: parts of its folder that may be in use still."""
    folder = str(lab.state_dir)
    allowed = tuple(f"{folder}/{part}" for part in besides)
    running = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        named = [word for word in words if folder in word]
        if named and not all(any(part in word for part in allowed) for word in named):
            running.append(" ".join(words))
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if folder in line]
    cables = [interface] if (INTERFACES / interface).exists() else []
    return [*running, *mounts, *cables, *(str(path) for path in groups if path.exists())]


def test_its_folder_cannot_be_where_the_node_has_its_own() -> None:
    if reason := cannot_run():
        pytest.skip(reason)
    folder = Path(f"/run/gpuaas-node-test-{os.getpid()}")
    lab = Lab(state_dir=folder)
    try:
        with pytest.raises(LabError, match="cannot be in /run"):
            lab.machine.start()
    finally:
        lab.down(purge=True)
    until(lambda: not folder.exists(), "nothing of it stays")
