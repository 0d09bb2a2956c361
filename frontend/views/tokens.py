"""API tokens of a project: made here, shown once, revoked here."""

import uuid
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from frontend.forms.projects import TokenForm
from frontend.frame import checked, done, fits, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.place import ProjectPlace, project_action, project_page
from frontend.views.usage import crumbs
from gpuaas.core.errors import Invalid
from tenants.roles import TOKEN_SCOPES, Permission
from tenants.selectors import token_get_for, tokens_for
from tenants.services import token_create, token_revoke

USUAL = timedelta(days=90)
LIST = Listing(
    "tokens",
    columns=(
        Column("name", "Token", "name", "token.name"),
        Column("prefix", value="token.prefix"),
        Column("owner", value="token.user.username"),
        Column("state", "State", value="word"),
        Column("scopes", "Scopes", value=lambda row: " ".join(row["token"].scopes)),
        Column("expires_at", "Valid until", "expires_at", "token.expires_at"),
        Column("last_used_at", "Last used", "last_used_at", "token.last_used_at"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
)


def offered(here: ProjectPlace) -> list[Permission]:
    return [scope for scope in Permission if scope in TOKEN_SCOPES and here.can(scope)]


def blank(here: ProjectPlace) -> TokenForm:
    scopes = [Permission.PROJECT_VIEW.value, Permission.WORKSPACE_VIEW.value]
    initial = {"expires_at": here.now + USUAL, "scopes": scopes}
    return TokenForm(offered=offered(here), initial=initial)


@never_cache
@sensitive_variables("secret", "raw", "tried", "more", "context")
@project_page(Permission.PROJECT_VIEW)
@checked
def tokens(request: HttpRequest, here: ProjectPlace) -> HttpResponseBase:
    """The answer to the POST carries the secret; nothing keeps it, and loading the page again does not bring it back."""
    if request.method != "POST":
        return draw(request, here, blank(here))
    form = TokenForm(request.POST, offered=offered(here))
    if form.is_valid():
        with refusals_on(form, Invalid):
            token, raw = token_create(**here.given, **form.cleaned_data)
            fits(request)
            tried = try_it(request, raw)
            return draw(request, here, blank(here), made=token, secret=raw, try_it=tried)
    return draw(request, here, form)


def try_it(request: HttpRequest, secret: str) -> str:
    """A command that works as it is copied: whatever its scopes, a token may ask who it is."""
    address = request.build_absolute_uri(reverse("api:me"))
    return f'curl -H "Authorization: Bearer {secret}" {address}'


def draw(request: HttpRequest, here: ProjectPlace, form: TokenForm, **more: Any) -> HttpResponseBase:
    shown = LIST.of(
        request,
        lambda query: named(tokens_for(**here.given), query["q"], "name", "prefix", "user__username"),
        lambda rows: [{"token": token, **look(token, here.now)} for token in rows],
    )
    context = {
        "form": form,
        "may_create": here.can(Permission.TOKEN_MANAGE),
        "crumbs": crumbs(here, "API tokens"),
        **more,
    }
    return list_page(request, "tokens/index.html", shown, context)


def look(token: Any, now: Any) -> dict[str, Any]:
    if token.revoked_at is not None:
        return {"tone": "off", "word": "Revoked", "live": False}
    if token.expires_at <= now:
        return {"tone": "off", "word": "Expired", "live": False}
    return {"tone": "ok", "word": "Valid", "live": True}


@project_action(Permission.PROJECT_VIEW)
def revoke(request: HttpRequest, here: ProjectPlace, token: uuid.UUID) -> HttpResponse:
    row = token_get_for(**here.given, token_id=token)
    token_revoke(actor=here.actor, token=row)
    text = f"Token {row.name} revoked. It can no longer be used."
    return done(request, text, "frontend:tokens", here.project.slug)
