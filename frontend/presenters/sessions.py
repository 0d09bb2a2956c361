"""Where somebody is signed in, and by whom else the sign-in is done, in words."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings

# The first that a browser names counts: Edge and Opera also call themselves Chrome, and Chrome calls itself Safari.
BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
SYSTEMS = {
    "Windows": "Windows",
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Mac OS": "macOS",
    "Linux": "Linux",
}
NOWHERE = "0.0.0.0"  # noqa: S104  how the sign-in notes a client without an address


@dataclass(frozen=True)
class SessionShown:
    id: int
    browser: str
    address: str
    began_at: datetime
    current: bool


@dataclass(frozen=True)
class LinkShown:
    id: int
    provider: str
    identity: str
    last_at: datetime | None


def sessions_shown(rows: Iterable[UserSession], *, current: str | None = None) -> list[SessionShown]:
    return [
        SessionShown(
            row.pk,
            browser_named(row.user_agent),
            "" if row.ip == NOWHERE else row.ip,
            row.created_at,
            row.session_key == current,
        )
        for row in rows
    ]


def browser_named(agent: str) -> str:
    browser = next((name for mark, name in BROWSERS.items() if mark in agent), "A browser")
    system = next((name for mark, name in SYSTEMS.items() if mark in agent), "")
    return f"{browser} on {system}" if system else browser


def links_shown(rows: Iterable[SocialAccount]) -> list[LinkShown]:
    """A provider that is configured no longer is shown by its short name."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    names = {app["provider_id"]: app["name"] for app in apps}
    return [LinkShown(row.pk, names.get(row.provider, row.provider), row.uid, row.last_login) for row in rows]
