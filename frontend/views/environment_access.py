"""Who may open an environment: its policy, and its keys, which are made here, shown once and revoked here."""

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables

from frontend.forms.environments import AccessForm, KeyForm
from frontend.frame import checked, done, fits, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.views.environments import ACCESS, definition_of, environment_action, environment_page, trail
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.environments import services
from gpuaas.environments.door.desk import BY_KEY
from gpuaas.environments.models import Environment
from gpuaas.environments.selectors import address_of, key_get, keys_of
from gpuaas.environments.services.rows import permit
from gpuaas.environments.states import Access

KEYS = Listing(
    "keys",
    columns=(
        Column("name", "Key", "name"),
        Column("prefix"),
        Column("created_by", "Created by", "created_by__username", "created_by.username"),
        Column("last_used_at", "Last used", "last_used_at"),
        Column("revoke", "Actions", value=None, quiet=True),
    ),
    filters=(find("Find a key or person", "Key or person"),),
)


def _draw(request: HttpRequest, here: ProjectPlace, row: Environment, **more: Any) -> HttpResponseBase:
    permit(here.actor, row)
    initial, definition = {"access": row.access}, definition_of(row)
    known = keys_of(environment=row).filter(revoked_at=None)
    keys = KEYS.of(
        request,
        lambda query: named(known, query["q"], "name", "created_by__username"),
        page_url=_url(row),
    )
    context = {
        "environment": row,
        "url": held.url_of(row),
        "keys_url": reverse("frontend:environment_keys", args=[row.project.slug, row.pk]),
        "has_door": bool(settings.DOOR_DOMAIN),
        "has_port": definition.port is not None,
        "is_public": row.access == Access.PUBLIC,
        "may_be_public": Access.PUBLIC in definition.access,
        "mine": row.access != Access.PRIVATE or here.actor.owns(row.created_by_id),
        "access_form": AccessForm(initial=initial, definition=definition),
        "key_form": KeyForm(auto_id="key_%s"),
        "crumbs": trail(here, Crumb(row.name, held.url_of(row)), Crumb("Access")),
        **more,
    }
    return list_page(request, "environments/access.html", keys, context)


show = environment_page(ACCESS)(_draw)


@environment_action(ACCESS)
def change(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    form = AccessForm(request.POST, definition=definition_of(row))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="access"):
            access = form.cleaned_data["access"]
            services.environment_access_set(actor=here.actor, environment=row, access=access)
            return done(request, "Changed who may open it.", _url(row))
    return _draw(request, here, row, access_form=form)


@never_cache
@sensitive_variables("secret", "raw", "link")
@environment_action(ACCESS)
@checked
def key(request: HttpRequest, here: ProjectPlace, row: Environment) -> HttpResponseBase:
    """The answer carries the key; nothing keeps it, and loading the page again does not bring it back."""
    form = KeyForm(request.POST, auto_id="key_%s")
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="name"):
            made, raw = services.key_create(actor=here.actor, environment=row, name=form.cleaned_data["name"])
            fits(request)
            address = address_of(row)
            link = f"{address.rstrip('/')}{BY_KEY}#{raw}" if address else ""
            return _draw(request, here, row, made=made, secret=raw, link=link, address=address)
    return _draw(request, here, row, key_form=form)


@environment_action(ACCESS)
def revoke(request: HttpRequest, here: ProjectPlace, row: Environment, door_key: uuid.UUID) -> HttpResponse:
    found = key_get(environment=row, key_id=door_key)
    services.key_revoke(actor=here.actor, key=found)
    return done(request, f"Key {found.name} revoked. It opens nothing any more.", _url(row))


def _url(row: Environment) -> str:
    return reverse("frontend:environment_access", args=[row.project.slug, row.pk])
