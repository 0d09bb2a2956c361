"""What every page of the console knows. Queries nothing: a middleware or view puts `Console` on the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from frontend import nav
from gpuaas.core.looks import Tone

THEMES = ("light", "dark")


@dataclass(frozen=True)
class Console:
    """Where the reader stands: `request.console = Console(...)`.

    `project` and `organization` are shown as they are; `projects` fills the switcher; `counts` are keyed by the
    URL name's last part ("workspaces"); `scope` holds what menu URLs are reversed with; `topics` is what the page
    listens to, for example ("project:7f3a…",). `hidden` names places that this reader's roles do not open.
    `visit` says where they stand who are at a tenant's by a role of the platform alone.
    """

    project: str = ""
    organization: str = ""
    projects: tuple[nav.Choice, ...] = ()
    is_operator: bool = False
    operator_view: bool = False
    time_zone: str = ""
    now: datetime = field(default_factory=timezone.now)
    counts: Mapping[str, int] = field(default_factory=dict)
    scope: Mapping[str, object] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    visit: str = ""
    visit_way_back: str = ""
    hidden: frozenset[str] = frozenset()


def attach(request: HttpRequest, console: Console) -> None:
    """Put the reader's place on the request, for the context processor to find."""
    vars(request)["console"] = console


def console(request: HttpRequest) -> dict[str, object]:
    """The context processor. Works on error pages too, where nothing was put on the request."""
    found = getattr(request, "console", None)
    here = found if isinstance(found, Console) else Console()
    user = getattr(request, "user", None)
    theme = request.COOKIES.get("theme", "")
    return {
        "console": here,
        "place": getattr(request, "here", None),
        # only the frame of a page draws it; each template that is drawn for a part has a context of its own
        "nav": SimpleLazyObject(
            lambda: nav.menu(
                path=request.path,
                operator=here.operator_view,
                scope=here.scope,
                counts=here.counts,
                hidden=here.hidden,
                signed_in=bool(user is not None and user.is_authenticated),
            )
        ),
        "tones": tuple(Tone),
        "theme": theme if theme in THEMES else "",
        "provider_name": getattr(settings, "PROVIDER_NAME", "gpuaas"),
        "zone": ZoneInfo(here.time_zone or getattr(settings, "BILLING_TIME_ZONE", "UTC")),
    }
