"""What answers behind the door of its bench: a server that answers at once, and JupyterLab with the arguments of the kind that the
portal ships. Each speaks TLS, too, so that a direct connection can be of the same kind as one by the door."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy.embedded.environment import ROOT
from gpuaas.environments.shipped import SHIPPED
from tests.frontend.pages.server import free_port
from tests.lab.fixtures import until

HERE, UV = "127.0.0.1", Path(sys.executable).parent / "uv"
LOCK = ROOT / "requirements" / "notebook.txt"
OF_THE_PLACE = ("--ServerApp.ip=", "--ServerApp.port=")


@dataclass(frozen=True)
class Pod:
    """secure: the port at which the same is answered by TLS. paths: what is asked for, by its name."""

    port: int
    secure: int
    paths: dict[str, str]


@contextmanager
def at_once(port: int, certificate: Path, key: Path) -> Iterator[Pod]:
    command = [sys.executable, "-m", "tests.bench.pod", str(port), str(certificate), str(key)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            secure = int(process.stdout.readline() if process.stdout else "")
            yield Pod(port, secure, {"an answer at once": "/"})
        finally:
            process.terminate()


@contextmanager
def jupyterlab(port: int, certificate: Path, key: Path) -> Iterator[Pod]:
    """Two processes, as one speaks TLS or does not."""
    folder = certificate.parent
    tls = f"--ServerApp.certfile={certificate}", f"--ServerApp.keyfile={key}"
    with ExitStack() as stack:
        stack.enter_context(_jupyterlab(folder / "plain", port))
        secure = free_port()
        stack.enter_context(_jupyterlab(folder / "secure", secure, *tls))
        yield Pod(port, secure, {"JupyterLab's page": "/lab", "JupyterLab's list of files": "/api/contents"})


@contextmanager
def _jupyterlab(home: Path, port: int, *more: str) -> Iterator[None]:
    """In an environment of its own, from its own lock."""
    home.mkdir()
    shipped = [each for each in SHIPPED["jupyterlab"][2]["arguments"] if not each.startswith(OF_THE_PLACE)]
    where = [f"--ServerApp.ip={HERE}", f"--ServerApp.port={port}", f"--ServerApp.root_dir={home}"]
    environment = ["--no-project", "--isolated", "--python", sys.executable, "--with-requirements", str(LOCK)]
    words = [str(UV), "run", "--quiet", *environment, "jupyter-lab", "--no-browser", "--allow-root"]
    own = {f"JUPYTER_{name}_DIR": str(home / ".jupyter") for name in ("CONFIG", "DATA", "RUNTIME")}
    with (
        (home.parent / f"{home.name}.log").open("wb") as log,
        subprocess.Popen(
            [*words, *where, *shipped, *more], env={**os.environ, **own}, stdout=log, stderr=log
        ) as process,
    ):
        try:
            until(partial(_listens, port), "JupyterLab answers", seconds=120)
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HERE, port), 1).close()
    except OSError:
        return False
    return True
