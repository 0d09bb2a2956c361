"""Pokes and events go out after commit, and a lost one harms nobody."""

import asyncio
import socket
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from celery import Celery, current_app
from channels.layers import get_channel_layer
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from kombu.exceptions import OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from gpuaas.core import events, queue
from gpuaas.core.events import project_group, publish
from gpuaas.core.middleware import RequestIdMiddleware


@pytest.mark.django_db(transaction=True)
def test_events_wait_for_the_commit() -> None:
    layer = get_channel_layer()
    assert layer is not None
    async_to_sync(layer.group_add)(project_group("p1"), "listener")
    with transaction.atomic():
        publish(kind="workspace", id="w0", groups=(project_group("p1"),))
        transaction.set_rollback(True)
    with transaction.atomic():
        publish(kind="workspace", id="w1", groups=(project_group("p1"),))
    message = async_to_sync(layer.receive)("listener")
    event = message["event"]
    assert event == {"kind": "workspace", "id": "w1", "mark": event["mark"]}


def test_lost_event_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        async def group_send(self, group: str, message: Any) -> None:
            raise ConnectionError("no broker")

    monkeypatch.setattr(events, "get_channel_layer", Broken)
    events._send({"kind": "workspace", "id": "w1", "mark": "m1"}, ("g",))
    monkeypatch.setattr(events, "get_channel_layer", lambda: None)
    events._send({"kind": "workspace", "id": "w1", "mark": "m1"}, ("g",))


def test_who_is_silent_holds_nobody_up(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """A host that lost its power, or a firewall between: it answers nothing, and refuses nothing."""

    class Silent:
        async def group_send(self, group: str, message: Any) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(events, "get_channel_layer", Silent)
    monkeypatch.setattr(events, "SEND_SECONDS", 0.05)
    events._send({"kind": "workspace", "id": "w1", "mark": "m1"}, ("g",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = Celery(broker=f"redis://127.0.0.1:{listener.getsockname()[1]}/0", set_as_current=False)
        app.conf.broker_transport_options = {**settings.REDIS_PATIENCE, "socket_timeout": 0.2}
        with pytest.raises(OperationalError):
            app.send_task("rooms.task", retry=False)


def test_pokes_wait_for_the_commit_and_may_get_lost(
    db: None,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent: list[tuple[str, list[str]]] = []

    def send_task(task: str, *, args: list[str], headers: dict[str, str], ignore_result: bool) -> None:
        sent.append((task, args))
        raise ConnectionError("no broker")

    monkeypatch.setattr(current_app, "send_task", send_task)
    with django_capture_on_commit_callbacks(execute=True):
        queue.poke("rooms.task", "quiet")
    assert sent == []
    settings.QUEUE_ENABLED = True
    with django_capture_on_commit_callbacks(execute=True):
        queue.poke("rooms.task", "id-1")
        assert sent == []
    assert sent == [("rooms.task", ["id-1"])]


@pytest.mark.parametrize(("given", "kept"), [("request-12345", True), ("a b", False), ("x" * 65, False)])
def test_request_ids(given: str, kept: bool) -> None:
    request = HttpRequest()
    request.META["HTTP_X_REQUEST_ID"] = given
    response = RequestIdMiddleware(lambda _: HttpResponse())(request)
    assert (response["X-Request-ID"] == given) is kept
