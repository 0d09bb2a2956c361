"""SSH into an environment on a real kubelet, by the client of OpenSSH and a real door."""

import hashlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded.certificate import certificate_make
from deploy.lab.node import Lab
from gpuaas.environments.models import Environment
from gpuaas.environments.shipped import SHIPPED
from tenants.actors import Actor
from tenants.models import User
from tests.environments.door.laptop import Laptop, laptop_of
from tests.environments.door.stage import DOMAIN, door_running
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import TOOLS, Place
from tests.lab.node.test_environments import bought, runs_in, unused  # noqa: F401  fixtures
from tests.providers.kubernetes.conftest import Room

SHELL = {
    "image": TOOLS,
    "command": SHIPPED["shell"][2]["command"],
    "home": "/home/user",
    "vcpus": 1,
    "memory_gib": 1,
    "home_gib": 1,
}
pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]


@pytest.mark.django_db(transaction=True)
def test_a_shell_in_a_pod_that_runs(
    node_lab: Lab,
    bought: Room,  # noqa: F811
    unused: Environment,  # noqa: F811
    alice: User,
    as_alice: Actor,
    settings: Any,
    tmp_path: Path,
) -> None:
    """One walk, since the environment and the door take a minute."""
    port, ssh = free_port(), free_port()
    settings.DOOR_DOMAIN, settings.DOOR_BIND = f"{DOMAIN}:{port}", ("127.0.0.1", port)
    settings.DOOR_CERTIFICATE, settings.DOOR_KEY = map(str, certificate_make(tmp_path, DOMAIN))
    settings.DOOR_SSH, settings.DOOR_SSH_BIND = ("127.0.0.1", ssh), ("127.0.0.1", ssh)
    place, label = Place(Kubectl(node_lab.control), bought.spec.external_name), unused.label or ""
    laptop = laptop_of(alice, ssh, tmp_path / "alice")
    with door_running(port):
        until(lambda: laptop.asks(label, "true").returncode == 0, "the door takes SSH", seconds=60)
        asked = laptop.asks(label, "id -u; pwd; echo $HOME; echo oops >&2; exit 7")
        assert (asked.returncode, asked.stdout.split(), asked.stderr) == (
            7,
            [b"1000", b"/home/user", b"/home/user"],
            b"oops\n",
        )
        files(laptop, label)
        terminal(laptop, label, place, unused.external_name)
        ports(laptop, label)
        copies(laptop, label, tmp_path)
        shell = runs_in(unused.workspace, node_lab, bought, as_alice, SHELL)
        until(lambda: laptop.asks(shell.label or "", "pwd").stdout == b"/home/user\n", "it is entered")


def files(laptop: Laptop, label: str) -> None:
    """There and back, byte for byte; the program learns that its input has ended."""
    content = os.urandom(5_000_000)
    assert laptop.asks(label, "cat > sent && sha256sum sent", given=content).stdout.split()[0].decode() == (
        hashlib.sha256(content).hexdigest()
    )
    assert laptop.asks(label, "cat sent").stdout == content
    for command in ("cat > alone", "exec cat 1<> alone"):
        assert laptop.asks(label, f"rm -f alone; {command}", given=content).returncode == 0
        assert laptop.asks(label, "cat alone").stdout == content, "of a program that has closed its output"


def copies(laptop: Laptop, label: str, folder: Path) -> None:
    """By scp, with an image that has no program for it."""
    (folder / "tree/deep er").mkdir(parents=True)
    (folder / "tree/deep er/-f").write_bytes(os.urandom(700_000))
    options = laptop.command("", options=())[1:-1]
    options[options.index("-p")] = "-P"
    for words in (["-r", "tree", f"{label}@127.0.0.1:"], ["-r", f"{label}@127.0.0.1:tree", "again"]):
        subprocess.run(
            ["scp", "-p", *options, *words], cwd=folder, check=True, capture_output=True, timeout=120
        )
    assert (folder / "again/deep er/-f").read_bytes() == (folder / "tree/deep er/-f").read_bytes()


def terminal(laptop: Laptop, label: str, place: Place, pod: str) -> None:
    """What runs in a terminal ends with the laptop."""
    asked = laptop.asks(label, given=b"echo $((6 * 7)) $TERM\rexit 5\r", options=("-tt",))
    assert asked.returncode == 5
    assert b"42 " in asked.stdout
    left = subprocess.Popen(
        laptop.command(label, "echo begun; sleep 4711", options=("-tt",)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert left.stdout is not None
        assert b"begun" in left.stdout.readline()
        assert "sleep 4711" in place.execute(pod, "ps")
    finally:
        left.send_signal(signal.SIGKILL)
        left.communicate()
    until(lambda: "sleep 4711" not in place.execute(pod, "ps"), "it has ended in the pod", seconds=30)


def ports(laptop: Laptop, label: str) -> None:
    """One that listens for the pod alone is reached, too; one at which nobody listens ends the connection."""
    assert laptop.asks(label, "httpd -p 127.0.0.1:9999 -h /tmp/www").returncode == 0
    request = b"GET /api/ HTTP/1.0\r\nHost: localhost\r\n\r\n"
    for port in (8888, 9999):
        assert b"200 OK" in laptop.answered(label, port, request)
    assert laptop.answered(label, 7777, request) == b""
