"""One account: its name and address, and how the person signs in."""

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from frontend.forms.operator import PersonRenameForm
from frontend.frame import checked, done, posted, refusals_on, refusals_shown
from frontend.lists import list_page
from frontend.presenters.sessions import links_shown
from frontend.views.account import sessions_listed
from frontend.views.operator.common import OperatorPlace, crumbs
from frontend.views.operator.tenants import person_action, person_page
from gpuaas.core.errors import Conflict, Invalid, StaleVersion
from gpuaas.core.rows import first_of
from tenants.models import User
from tenants.selectors import links_of, second_factor_of, sessions_of
from tenants.services import link_remove, second_factor_remove, sessions_end, user_update

NAMES = ("username", "email", "first_name", "last_name")


@person_page
@checked
def show(request: HttpRequest, here: OperatorPlace, row: User) -> HttpResponseBase:
    before = {name: getattr(row, name) for name in NAMES}
    form = PersonRenameForm(posted(request), initial={**before, "version": row.version})
    if form.is_valid():
        version = form.cleaned_data.pop("version")
        with refusals_on(form, Invalid, StaleVersion):
            user_update(actor=here.actor, user=row, expected_version=version, **form.cleaned_data)
            return done(request, f"{row.username} saved.", "frontend:operator_person", row.pk)
    asked: dict[str, Any] = {"actor": here.actor, "user": row}
    sessions = sessions_listed(request, sessions_of(**asked, now=here.now))
    context = {
        "person": row,
        "shown": before["username"],
        "form": form,
        "sessions": sessions,
        "links": links_shown(links_of(**asked)),
        "second_factor": second_factor_of(**asked),
        "crumbs": crumbs("Tenants", ("People", "operator_people"), (before["username"], "")),
    }
    return list_page(request, "operator/person.html", sessions, context)


@person_action
def sign_out(request: HttpRequest, here: OperatorPlace, row: User) -> HttpResponse:
    """Who signs themselves out keeps the session in which they ask."""
    own = {str(request.session.session_key)} if here.actor.owns(row.pk) else set()
    ended = sessions_end(actor=here.actor, user=row, but=own)
    text = f"{row.username} is signed out everywhere." if ended else f"{row.username} was signed in nowhere."
    return done(request, text, "frontend:operator_person", row.pk)


@person_action
def unlink(request: HttpRequest, here: OperatorPlace, row: User, link: int) -> HttpResponse:
    found: SocialAccount = first_of(links_of(actor=here.actor, user=row).filter(pk=link), "identity")
    with refusals_shown(request, Conflict):
        link_remove(actor=here.actor, link=found, but={str(request.session.session_key)})
        text = f"This identity no longer enters the account of {row.username}."
        return done(request, text, "frontend:operator_person", row.pk)
    return redirect("frontend:operator_person", row.pk)


@person_action
def second_factor_off(request: HttpRequest, here: OperatorPlace, row: User) -> HttpResponse:
    with refusals_shown(request, Conflict):
        second_factor_remove(actor=here.actor, user=row)
        text = f"{row.username} signs in without a second factor now."
        return done(request, text, "frontend:operator_person", row.pk)
    return redirect("frontend:operator_person", row.pk)
