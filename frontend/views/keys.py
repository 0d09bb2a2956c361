"""The reader's own public keys."""

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from frontend.forms import refuse
from frontend.forms.machines import KeyForm
from frontend.nav import Crumb
from frontend.place import place_of
from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.workspaces.machines.keys import keypair_add, keypair_remove, keys_for


@login_required
def keys(request: HttpRequest) -> HttpResponse:
    actor = place_of(request).actor
    form = KeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = keypair_add(actor=actor, **form.cleaned_data)
        except (Invalid, Conflict) as error:
            refuse(form, error, default="name")
        else:
            messages.success(request, f"{made.name} is kept; choose it when you order a machine.")
            return redirect("frontend:keys")
    context = {
        "form": form,
        "keys": keys_for(actor=actor),
        "crumbs": (Crumb("Account", reverse("frontend:account")), Crumb("Keys")),
    }
    return render(request, "account/keys.html", context, status=422 if form.errors else 200)


@require_POST
@login_required
def remove(request: HttpRequest, key: uuid.UUID) -> HttpResponse:
    actor = place_of(request).actor
    found = keys_for(actor=actor).filter(pk=key).first()
    if found is None:
        raise NotFound("there is no such key")
    keypair_remove(actor=actor, key=found)
    messages.success(request, f"{found.name} is removed; machines that were launched with it keep it.")
    return redirect("frontend:keys")
