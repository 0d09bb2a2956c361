"""The reader's own account: time zone, how they sign in and where they are signed in, and their API tokens of all projects."""

import uuid
from typing import Any
from zoneinfo import available_timezones

from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from frontend.forms.projects import AccountForm
from frontend.frame import checked, done, number_of, posted, refusals_on, refusals_shown
from frontend.lists import Column, Listed, Listing, find, list_page, named, saying
from frontend.nav import Crumb
from frontend.place import place_of
from frontend.presenters.sessions import links_shown, sessions_shown
from gpuaas.core.errors import Conflict
from gpuaas.core.rows import first_of
from tenants.models import User
from tenants.selectors import links_of, sessions_of, tokens_of
from tenants.services import link_remove, sessions_end, token_revoke

TOKENS = Listing(
    "tokens",
    columns=(
        Column("name", "Token", "name"),
        Column("prefix"),
        Column("project", "Project", "project__slug", "project.slug"),
        Column("expires_at", "Valid until", "expires_at"),
        Column("last_used_at", "Last used", "last_used_at"),
        Column("revoke", "Revoke", value=None, quiet=True),
    ),
    filters=(find("Find a token or project", "Token or project"),),
)
SESSIONS = Listing(
    "sessions",
    columns=(
        Column("browser", "Browser", "browser"),
        Column("address", "Address", "address"),
        Column("began_at", "Since", "began_at"),
        Column("this_one", value="current"),
    ),
    filters=(find("Find a browser or address", "Browser or address"),),
    mark="session-",
)


def sessions_listed(request: HttpRequest, rows: list[UserSession], current: str | None = None) -> Listed:
    shown = sessions_shown(rows, current=current)
    return SESSIONS.of(
        request, lambda query: saying(shown, query["q"], lambda one: f"{one.browser} {one.address}")
    )


@checked
@login_required
def account(request: HttpRequest) -> HttpResponseBase:
    here = place_of(request)
    user = here.user
    own: dict[str, Any] = {"actor": here.actor, "user": user}
    form = AccountForm(posted(request), initial={"time_zone": user.time_zone})
    if form.is_valid():
        with refusals_on(form):
            User.objects.filter(pk=user.pk).update(time_zone=form.cleaned_data["time_zone"])
            return done(
                request, f"All times are now in {form.cleaned_data['time_zone']}.", "frontend:account"
            )
    known = tokens_of(actor=here.actor, now=here.now)
    tokens = TOKENS.of(request, lambda query: named(known, query["q"], "name", "project__slug"))
    sessions = sessions_listed(request, sessions_of(**own, now=here.now), request.session.session_key)
    context = {
        "form": form,
        "zones": sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        "sessions": sessions,
        "end_url": reverse("frontend:sessions_end"),
        "links": links_shown(links_of(**own)),
        "crumbs": (Crumb("Account"),),
    }
    return list_page(request, "account/index.html", tokens, context, sessions)


@require_POST
@login_required
def sign_out(request: HttpRequest) -> HttpResponse:
    """One browser, by its number in the list, or all but this one."""
    here = place_of(request)
    own: dict[str, Any] = {"actor": here.actor, "user": here.user}
    asked = number_of(request.POST.get("session", ""))
    rows = sessions_of(**own, now=here.now)
    only = None if "session" not in request.POST else {row.session_key for row in rows if row.pk == asked}
    ended = sessions_end(**own, only=only, but={str(request.session.session_key)})
    return done(
        request,
        f"{ended} other session{'' if ended == 1 else 's'} ended."
        if ended
        else "There was no other session.",
        "frontend:account",
    )


@require_POST
@login_required
def unlink(request: HttpRequest, link: int) -> HttpResponse:
    here = place_of(request)
    found: SocialAccount = first_of(links_of(actor=here.actor, user=here.user).filter(pk=link), "identity")
    with refusals_shown(request, Conflict):
        link_remove(actor=here.actor, link=found, but={str(request.session.session_key)})
        return done(request, "This identity no longer enters your account.", "frontend:account")
    return redirect("frontend:account")


@require_POST
@login_required
def token_end(request: HttpRequest, token: uuid.UUID) -> HttpResponse:
    here = place_of(request)
    found = first_of(tokens_of(actor=here.actor, now=here.now).filter(pk=token), "API token")
    token_revoke(actor=here.actor, token=found)
    return done(request, f"Token {found.name} revoked. It can no longer be used.", "frontend:account")
