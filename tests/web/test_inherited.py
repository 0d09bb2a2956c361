"""The web process on a socket that it was given: nobody is refused while it is replaced."""

import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Sized
from functools import partial

import pytest

from tests.e2e.portal import ROOT, wait_until
from tests.metering.meters import environment_here

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as made:
        yield made


def started(listening: socket.socket) -> "subprocess.Popen[bytes]":
    number = listening.fileno()
    return subprocess.Popen(
        [ROOT / ".venv/bin/python", "manage.py", "web", "--fd", str(number), "--grace", "5"],
        cwd=ROOT,
        env=environment_here(),
        pass_fds=[number],
    )


def asked(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=60) as answer:
        return int(answer.status)


def reaches(seen: Sized, most: int) -> bool:
    return len(seen) >= most


def test_nobody_is_refused_while_it_is_replaced(listening: socket.socket) -> None:
    port, over = listening.getsockname()[1], threading.Event()
    seen: list[object] = []

    def ask_on() -> None:
        while not over.is_set():
            try:
                seen.append(asked(port))
            except OSError as error:
                seen.append(error)

    running, askers = started(listening), [threading.Thread(target=ask_on) for _ in range(4)]
    try:
        wait_until("an answer", lambda: asked(port) == 200)
        for each in askers:
            each.start()
        for number in range(2):
            wait_until("answers", partial(reaches, seen, 20 * (number + 1)))
            running.send_signal(signal.SIGTERM)
            running.wait(timeout=60)
            running = started(listening)
        wait_until("answers of the third", partial(reaches, seen, len(seen) + 20))
    finally:
        over.set()
        for each in askers:
            if each.is_alive():
                each.join()
        os.kill(running.pid, signal.SIGTERM)
        running.wait(timeout=60)
    assert set(seen) == {200}
