"""Who hears what on the page's WebSocket, with the real session and origin middleware in front."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.layers import InMemoryChannelLayer, get_channel_layer
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.test import Client
from django.urls import reverse

from gpuaas.core import clock
from gpuaas.core.events import OPERATORS_GROUP, project_group, user_group
from gpuaas.live import consumers
from gpuaas.live.audience import groups_for
from gpuaas.live.routing import websocket_urlpatterns
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, ProjectMembership, User
from tenants.services import organization_member_set, project_member_set, user_deactivate
from tests.frontend.away import away_from_here
from tests.live.page import Page, application

pytestmark = pytest.mark.django_db(transaction=True)


def cookie_of(user: User) -> bytes:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}".encode()


async def connect(user: User | None, *, behind: Any = application) -> Page:
    headers = [(b"origin", b"http://testserver"), (b"host", b"testserver")]
    if user is not None:
        headers.append((b"cookie", await sync_to_async(cookie_of)(user)))
    page = Page(headers, behind=behind)
    assert await page.connect()
    return page


def heard_by(group: str) -> list[str]:
    layer = get_channel_layer()
    assert isinstance(layer, InMemoryChannelLayer)
    return list(layer.groups.get(group, {}))


async def tell(group: str, kind: str = "workspace", id: str = "w1", mark: str = "m3") -> None:
    layer = get_channel_layer()
    assert layer is not None
    event = {"kind": kind, "id": id, "mark": mark, "secret": "never forwarded"}
    await layer.group_send(group, {"type": "live.event", "event": event})


def run(scenario: Callable[[], Awaitable[Any]]) -> None:
    """Each scenario in a loop of its own: the in-memory layer is bound to one."""

    async def inner() -> None:
        await scenario()

    asyncio.run(inner())


def test_the_team_hears_its_project_and_nothing_but_kind_id_mark(
    alice: User, bob: User, project: Project
) -> None:
    async def scenario() -> None:
        pages = [await connect(alice), await connect(bob)]
        await tell(project_group(project.pk))
        for page in pages:
            assert await page.hears() == {"kind": "workspace", "id": "w1", "mark": "m3"}
            await page.leave()

    run(scenario)


def test_an_outsider_hears_nothing(alice: User, charlie: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(charlie)
        await tell(project_group(project.pk))
        await tell(OPERATORS_GROUP)
        assert await page.hears_nothing()
        await page.leave()

    run(scenario)


def test_operators_hear_the_platform(olga: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(olga)
        await tell(OPERATORS_GROUP, id="w9")
        assert (await page.hears())["id"] == "w9"
        await page.leave()

    run(scenario)


def test_anonymous_is_closed_with_4401(db: None) -> None:
    async def scenario() -> None:
        page = await connect(None)
        assert await page.hears() == {"closed": consumers.ANONYMOUS}

    run(scenario)


def test_a_foreign_origin_is_refused(alice: User, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    guarded = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))

    async def scenario() -> None:
        cookie = (b"cookie", await sync_to_async(cookie_of)(alice))
        foreign = Page([(b"origin", b"http://elsewhere.example"), cookie], behind=guarded)
        assert not await foreign.connect()
        own = Page([(b"origin", b"http://testserver"), cookie], behind=guarded)
        assert await own.connect()
        await own.leave()

    run(scenario)


def test_a_removed_member_stops_hearing_at_the_membership_event(bob: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(bob)
        await sync_to_async(ProjectMembership.objects.filter(user=bob).delete)()
        await tell(project_group(project.pk), kind="membership", id=str(project.pk))
        assert (await page.hears())["kind"] == "membership"
        await tell(project_group(project.pk), id="w2")
        assert await page.hears_nothing()
        await page.leave()

    run(scenario)


def test_a_new_member_hears_the_project_after_their_own_event(charlie: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(charlie)
        await sync_to_async(ProjectMembership.objects.create)(user=charlie, project=project, role="viewer")
        await tell(user_group(charlie.pk), kind="membership")
        assert (await page.hears())["kind"] == "membership"
        await tell(project_group(project.pk), id="w2")
        assert (await page.hears())["id"] == "w2"
        await page.leave()

    run(scenario)


@pytest.mark.parametrize("where", ["project", "organization"])
def test_who_is_added_hears_the_project_at_once(
    charlie: User, as_alice: Actor, project: Project, where: str
) -> None:
    def add() -> None:
        if where == "project":
            project_member_set(actor=as_alice, project=project, user=charlie, role="viewer")
        else:
            organization = project.organization
            organization_member_set(actor=as_alice, organization=organization, user=charlie, role="billing")

    async def scenario() -> None:
        page = await connect(charlie)
        await sync_to_async(add)()
        assert (await page.hears())["kind"] == f"{where}_membership"
        await tell(project_group(project.pk), id="w2")
        assert (await page.hears())["id"] == "w2"
        await page.leave()

    run(scenario)


@pytest.mark.parametrize("how", ["signed out", "expired"])
def test_heartbeats_recheck_and_end_a_session_that_is_over(
    alice: User, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.0)

    async def scenario() -> None:
        from django.contrib.sessions.models import Session

        page = await connect(alice)
        assert await page.hears() == {"type": "heartbeat"}
        if how == "expired":
            await sync_to_async(Session.objects.update)(expire_date=clock.now())
        else:
            await sync_to_async(Session.objects.all().delete)()
        message = await page.hears()
        while "closed" not in message:
            message = await page.hears()
        assert message == {"closed": consumers.ANONYMOUS}

    run(scenario)


def test_a_page_connects_anew_when_nobody_could_look_whether_its_session_holds(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.0)

    async def scenario() -> None:
        page, away = await connect(alice), away_from_here()
        assert await page.hears() == {"type": "heartbeat"}
        await sync_to_async(away.__enter__)()
        message = await page.hears()
        while "closed" not in message:
            message = await page.hears()
        await sync_to_async(away.__exit__)(None, None, None)
        assert message == {"closed": consumers.AGAIN}

    run(scenario)


def test_nor_does_it_stay_where_it_could_not_be_taken_out_of_its_groups(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is away in the moment in which the session is over."""
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0.0)

    async def refuse(self: InMemoryChannelLayer, group: str, channel: str) -> None:
        del self, group, channel
        raise ConnectionError

    async def scenario() -> None:
        from django.contrib.sessions.models import Session

        page = await connect(alice)
        assert await page.hears() == {"type": "heartbeat"}
        with monkeypatch.context() as away:
            away.setattr(InMemoryChannelLayer, "group_discard", refuse)
            await sync_to_async(Session.objects.all().delete)()
            message = await page.hears()
            while "closed" not in message:
                message = await page.hears()
        assert message == {"closed": consumers.AGAIN}

    run(scenario)


async def left_by_its_browser(scope: Any, receive: Any, send: Any) -> None:
    """The portal behind a server whose browser leaves once it is connected, before the server can deliver that."""

    async def refuse(message: Any) -> None:
        if message["type"] != "websocket.accept":
            raise ConnectionResetError("the browser has left")
        await send(message)

    await application(scope, receive, refuse)


def test_a_browser_that_leaves_while_something_is_sent_ends_it_quietly(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEARTBEAT_SECONDS", 0.01)

    async def scenario() -> None:
        page = await connect(alice, behind=left_by_its_browser)
        await tell(project_group(project.pk))
        assert await page.hears_nothing()
        await page.leave()
        assert heard_by(project_group(project.pk)) == []

    run(scenario)


async def closing_for_good(scope: Any, receive: Any, send: Any) -> None:
    """The portal behind a server that takes nothing after a close, as real ones do."""
    closed = False

    async def refuse(message: Any) -> None:
        nonlocal closed
        if closed:
            raise RuntimeError(f"{message['type']} after the close")
        closed = message["type"] == "websocket.close"
        await send(message)

    await application(scope, receive, refuse)


def test_events_that_are_queued_when_it_closes_are_dropped(bob: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(bob, behind=closing_for_good)
        await sync_to_async(user_deactivate)(actor=SYSTEM, user=bob)
        await tell(project_group(project.pk), kind="membership", id=str(project.pk))
        await tell(project_group(project.pk), id="w2")
        while "closed" not in await page.hears():
            continue
        assert await page.hears_nothing()
        await page.leave()

    run(scenario)


def test_what_a_page_says_is_ignored(alice: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(alice)
        await page.say(text="not json at all")
        await page.say(bytes=b"\x00\xff")
        await tell(project_group(project.pk))
        assert (await page.hears())["id"] == "w1"
        await page.leave()

    run(scenario)


def test_a_disabled_account_stops_hearing_at_once(bob: User, project: Project) -> None:
    async def scenario() -> None:
        page = await connect(bob)
        await sync_to_async(user_deactivate)(actor=SYSTEM, user=bob)
        assert await page.hears() == {"closed": consumers.ANONYMOUS}
        await page.leave()

    run(scenario)


def test_an_open_page_stops_hearing_when_its_person_signs_out(bob: User, project: Project) -> None:
    async def scenario() -> None:
        client = Client()
        await sync_to_async(client.force_login)(bob)
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        page = Page(
            [(b"origin", b"http://testserver"), (b"host", b"testserver"), (b"cookie", cookie.encode())]
        )
        assert await page.connect()
        await sync_to_async(client.post)(reverse("account_logout"))
        assert await page.hears() == {"closed": consumers.ANONYMOUS}
        await page.leave()

    run(scenario)


def test_a_disabled_account_hears_nothing(alice: User) -> None:
    alice.is_active = False
    assert groups_for(alice) == frozenset()
