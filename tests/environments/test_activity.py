"""What an environment says of its own use, and what a pod may say instead."""

import asyncio
import json
from typing import Any

import pytest
import time_machine

from gpuaas.core.errors import Unavailable
from gpuaas.environments import activity
from gpuaas.environments import pod as pod_asked
from gpuaas.environments.activity import Told, code_server, jupyter
from gpuaas.environments.models import Environment
from gpuaas.environments.spec import FOR_SPEC
from gpuaas.environments.use import TIME
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from tests.environments.stage import START, at, said


def says(**answers: Any) -> activity.Ask:
    """By the last word of the path."""
    return lambda path: json.loads(json.dumps(answers[path.partition("?")[0].rpartition("/")[2]]))


LAST = "2027-03-01T08:00:00Z"


@pytest.mark.parametrize(
    ("kernels", "using"),
    [
        ([], ""),
        ([{"execution_state": "idle", "connections": 0}, {"execution_state": "dead"}], ""),
        ([{"execution_state": "idle"}, {"execution_state": "busy"}], "a kernel is busy"),
        ([{"execution_state": "starting"}], "a kernel is busy"),
        ([{"execution_state": None}], "a kernel is busy"),
        ([{"execution_state": "idle", "connections": 1}], "somebody is connected to a kernel"),
    ],
)
def test_jupyters_words(kernels: list[Any], using: str) -> None:
    assert jupyter(says(status={"last_activity": LAST}, kernels=kernels)) == Told(START, using)


def test_a_time_of_another_zone_is_told_in_utc() -> None:
    """As pages and conditions name it, whatever zone a server keeps."""
    found = jupyter(says(status={"last_activity": "2027-03-01T10:00:00+02:00"}, kernels=[]))
    assert (found.at, f"{found.at:{TIME}}") == (START, "2027-03-01 08:00 UTC")


def test_code_servers_words() -> None:
    assert code_server(says(healthz={"lastHeartbeat": START.timestamp() * 1000})) == Told(START)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "nonsense",
    [
        b"", b"nonsense", b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 302 No\r\nLocation: http://10.0.0.1/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{", b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 5000, b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b'HTTP/1.1 200 OK\r\n\r\n{"last_activity": 5}', b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n{}", b"x" * (2 << 20), b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2 << 20), b"HTTP/1.1 200 OK\r\n\r\n\xff",
        b"HTTP/1.1 \0\0\0 No\r\n\r\n",
    ],
    ids=range(15),
)  # fmt: skip
def test_a_pod_may_answer_what_it_likes(
    travel: time_machine.Traveller, unused: Environment, monkeypatch: pytest.MonkeyPatch, nonsense: bytes
) -> None:
    async def pod(reader: Any, writer: Any) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(nonsense)
        await writer.drain()

    monkeypatch.setattr(SandboxEnvironments, "reach", lambda *_: pod)
    with pytest.raises(Unavailable):
        activity.told_by(Environment.objects.select_related(*FOR_SPEC).get(pk=unused.pk))
    row = at(travel, unused, hours=9)
    assert (said(row), row.state) == (("Unknown", "NotKnown"), "ready")


@pytest.mark.django_db
def test_a_pod_that_says_nothing_is_not_waited_for_long(
    travel: time_machine.Traveller, unused: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pod(_reader: Any, _writer: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pod_asked, "SECONDS", 0.05)
    monkeypatch.setattr(SandboxEnvironments, "reach", lambda *_: pod)
    with pytest.raises(Unavailable, match="does not answer within"):
        activity.told_by(Environment.objects.select_related(*FOR_SPEC).get(pk=unused.pk))
