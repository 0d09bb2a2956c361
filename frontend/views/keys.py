"""The reader's own public keys."""

import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST

from frontend.forms.machines import KeyForm
from frontend.frame import checked, done, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named
from frontend.nav import Crumb
from frontend.place import place_of
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.rows import first_of
from gpuaas.workspaces.machines.keys import keypair_add, keypair_remove, keys_for

LIST = Listing(
    "keys",
    columns=(
        Column("name", "Key", "name"),
        Column("fingerprint", "Fingerprint", "fingerprint"),
        Column("created_at", "Added", "created_at"),
        Column("actions", "Actions", value=None, quiet=True),
    ),
    filters=(find(),),
)


@checked
@login_required
def keys(request: HttpRequest) -> HttpResponseBase:
    actor = place_of(request).actor
    form = KeyForm(posted(request))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict, default="name"):
            made = keypair_add(actor=actor, **form.cleaned_data)
            return done(
                request, f"Key {made.name} added. Choose it when you order a machine.", "frontend:keys"
            )
    context = {
        "form": form,
        "crumbs": (Crumb("Account", reverse("frontend:account")), Crumb("Keys")),
    }
    shown = LIST.of(request, lambda query: named(keys_for(actor=actor), query["q"], "name", "fingerprint"))
    return list_page(request, "account/keys.html", shown, context)


@require_POST
@login_required
def remove(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    actor = place_of(request).actor
    found = first_of(keys_for(actor=actor).filter(pk=key), "key")
    keypair_remove(actor=actor, key=found)
    text = f"Key {found.name} removed. Machines launched with it keep it."
    return done(request, text, "frontend:keys")
