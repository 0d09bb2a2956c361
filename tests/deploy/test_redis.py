"""The embedded Redis comes back where it was: processes that run have its address."""

import os
import signal
import socket
from pathlib import Path

from deploy.embedded import redis
from tests.e2e.portal import wait_until


def test_after_a_kill_it_is_at_its_old_address(tmp_path: Path) -> None:
    """Though the connection that the kill ended is still closing on its side."""
    url = redis.start(tmp_path)
    port = int(url.rpartition(":")[2].partition("/")[0])
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(16)
            os.kill(int((tmp_path / "redis.pid").read_text()), signal.SIGKILL)
            wait_until("it to be gone", lambda: connection.recv(16) == b"")
            assert redis.start(tmp_path) == url
    finally:
        redis.stop(tmp_path)
