"""API tokens of a project: made here, shown once, revoked here."""

import uuid
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from frontend.forms import refuse
from frontend.forms.projects import TokenForm
from frontend.place import ProjectPlace, project_page
from frontend.views.usage import crumbs
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from tenants.roles import TOKEN_SCOPES, Permission
from tenants.selectors import token_get_for, tokens_for
from tenants.services import token_create, token_revoke

ROWS = 50
USUAL = timedelta(days=90)


def offered(here: ProjectPlace) -> list[Permission]:
    return [scope for scope in Permission if scope in TOKEN_SCOPES and here.can(scope)]


def blank(here: ProjectPlace) -> TokenForm:
    scopes = [Permission.PROJECT_VIEW.value, Permission.WORKSPACE_VIEW.value]
    initial = {"expires_at": clock.now() + USUAL, "scopes": scopes}
    return TokenForm(offered=offered(here), initial=initial)


@never_cache
@sensitive_variables("secret", "raw", "context")
@project_page(Permission.PROJECT_VIEW)
def tokens(request: HttpRequest, here: ProjectPlace) -> HttpResponse:
    """The answer to the POST carries the secret; nothing keeps it, and loading the page again does not bring it back."""
    if request.method != "POST":
        return draw(request, here, blank(here))
    form = TokenForm(request.POST, offered=offered(here))
    if form.is_valid():
        data = form.cleaned_data
        try:
            token, raw = token_create(actor=here.actor, project=here.project, **data)
        except Invalid as error:
            refuse(form, error)
        else:
            response = draw(request, here, blank(here), made=token, secret=raw)
            response["Cache-Control"] = "no-store"
            return response
    return draw(request, here, form, status=422)


def draw(
    request: HttpRequest, here: ProjectPlace, form: TokenForm, *, status: int = 200, **more: Any
) -> HttpResponse:
    now = clock.now()
    page = Paginator(tokens_for(actor=here.actor, project=here.project), ROWS).get_page(
        request.GET.get("page")
    )
    context = {
        "place": here,
        "form": form,
        "page": page,
        "rows": [{"token": token, **look(token, now)} for token in page],
        "may_create": here.can(Permission.TOKEN_MANAGE),
        "crumbs": crumbs(here, "API tokens"),
        **more,
    }
    return render(request, "tokens/index.html", context, status=status)


def look(token: Any, now: Any) -> dict[str, Any]:
    if token.revoked_at is not None:
        return {"tone": "off", "word": "Revoked", "live": False}
    if token.expires_at <= now:
        return {"tone": "off", "word": "Expired", "live": False}
    return {"tone": "ok", "word": "Valid", "live": True}


@require_POST
@project_page(Permission.PROJECT_VIEW)
def revoke(request: HttpRequest, here: ProjectPlace, token: uuid.UUID) -> HttpResponse:
    row = token_get_for(actor=here.actor, project=here.project, token_id=token)
    token_revoke(actor=here.actor, token=row)
    messages.success(request, f"{row.name} is revoked; what uses it is refused from now on.")
    return redirect(reverse("frontend:tokens", args=[here.project.slug]))
