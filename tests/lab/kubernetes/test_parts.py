"""The lab's parts that need no cluster."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deploy.lab.kubernetes import Lab, LabError, existing_kubeconfig
from deploy.lab.kubernetes.controlplane import program_name
from deploy.lab.kubernetes.programs import NAMES, Programs
from deploy.lab.kubernetes.settings import Settings
from deploy.lab.locks import locked
from deploy.lab.openstack import settings as openstack
from deploy.lab.processes import Process

SLEEP = ["/bin/sleep", "300"]


def test_without_go_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"kube-apiserver.*install Go 1\.26 or newer.*KUBEBUILDER_ASSETS"):
        Programs(cache=tmp_path).ensure(lambda _: None)


def test_programs_that_are_there_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "assets"
    given.mkdir()
    for name in NAMES:
        (given / name).touch(mode=0o755)
    (given / "kwok").chmod(0o644)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))
    programs = Programs(cache=tmp_path)
    assert programs.path("etcd") == given / "etcd"
    assert programs.missing() == ["kwok"]


def test_existing_cluster_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUAAS_LAB_KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert existing_kubeconfig() is None
    monkeypatch.setenv("GPUAAS_LAB_KUBECONFIG", "/etc/kubernetes/admin.conf")
    assert existing_kubeconfig() == Path("/etc/kubernetes/admin.conf")


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("clusters:\n- cluster:\n    server: https://127.0.0.1:6443\n", True),
        ('{"clusters": [{"cluster": {"server": "https://localhost:6443", "a": 1}}]}', True),
        ("clusters:\n- cluster:\n    server: https://[::1]:6443\n", True),
        ("clusters:\n- cluster:\n    server: https://k8s.example.org:6443\n", False),
        ("- {server: https://127.0.0.1:6443}\n- {server: https://10.0.0.1:6443}\n", False),
        ("- {server: https://127.0.0.1.example.org}\n", False),
        ("clusters: []\n", False),
    ],
)
def test_the_shells_cluster_is_used_on_loopback_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, used: bool
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    monkeypatch.delenv("GPUAAS_LAB_KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert existing_kubeconfig() == (path if used else None)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert existing_kubeconfig() is None


def test_program_is_found_again_and_stopped_by_another_process(tmp_path: Path) -> None:
    start = f"from pathlib import Path; from deploy.lab.processes import Process; Process(Path({str(tmp_path)!r}), 'x').start({SLEEP!r})"
    subprocess.run([sys.executable, "-c", start], check=True, timeout=60)
    process = Process(tmp_path, "x")
    pid = process.pid()
    assert pid is not None
    assert os.getsid(pid) == pid
    assert process.runs(SLEEP)
    assert not process.runs(["/bin/sleep", "301"])
    process.stop()
    assert process.pid() is None
    assert not Path(f"/proc/{pid}/exe").exists()


def test_paused_program_is_stopped_too(tmp_path: Path) -> None:
    process = Process(tmp_path, "x")
    process.start(SLEEP)
    process.pause()
    process.stop()
    assert process.pid() is None


def test_pid_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    process = Process(tmp_path, "x")
    process.start(SLEEP)
    record = tmp_path / "run" / "x.json"
    original = record.read_text()
    try:
        record.write_text(original.replace('"identity": "', '"identity": "earlier-'))
        assert process.pid() is None
        process.stop()
    finally:
        record.write_text(original)
    assert process.pid() is not None
    process.stop()


def test_lock_waits_for_its_holder_and_not_forever(tmp_path: Path) -> None:
    release, waited = threading.Event(), threading.Event()
    path = tmp_path / "lock"

    def second() -> None:
        with locked(path, limit=60, waiting=waited.set):
            release.set()

    thread = threading.Thread(target=second)
    with locked(path, limit=1):
        thread.start()
        assert waited.wait(30)
        assert not release.is_set()
        with pytest.raises(LabError, match="another process has held"), locked(path, limit=0):
            pytest.fail("two hold the lock")
    thread.join(60)
    assert release.is_set()


def test_choices_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    Settings().changed(port_base=24000, audit=None, feature_gates="A=true").save(path)
    assert Settings.load(path) == Settings(port_base=24000, feature_gates="A=true")
    path.write_text("{")
    assert Settings.load(path) == Settings()


@pytest.mark.parametrize("kind", [Settings, openstack.Settings])
def test_a_lab_outlives_the_checkout_that_started_it(kind: type[Settings], tmp_path: Path) -> None:
    """A lab in the cache was started with a topology of a checkout that is gone since: it goes on with its own."""
    path, gone = tmp_path / "settings.json", tmp_path / "gone.json"
    gone.write_text("{}")
    kind(port_base=24000, topology=str(gone)).save(path)
    assert kind.load(path).topology_path == gone
    gone.unlink()
    assert kind.load(path) == kind(port_base=24000)
    assert kind.load(path).topology_path.is_file()


def test_program_names_and_missing_labs_are_refused_in_words(tmp_path: Path) -> None:
    assert program_name("apiserver") == program_name("kube-apiserver") == "kube-apiserver"
    with pytest.raises(LabError, match="no program 'kubelet'; there are etcd"):
        program_name("kubelet")
    absent = Lab(state_dir=tmp_path / "none")
    for call in (absent.start_program, absent.stop_program, absent.pause_program, absent.resume_program):
        with pytest.raises(LabError, match="there is no lab in"):
            call("apiserver")
    absent.down(purge=True)
    assert not (tmp_path / "none").exists()
