"""What is wrong in a request while it is typed, field by field, by the rules that its service has."""

from collections.abc import Callable, Mapping
from typing import Any

from frontend.forms import refuse
from frontend.forms.lease import typed_only
from frontend.forms.workspaces import RequestForm
from frontend.place import ProjectPlace
from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.workspaces.selectors import name_is_taken
from gpuaas.workspaces.services.validation import (
    members_resolve,
    name_validate,
    placement_validate,
    storage_resolve,
    storage_validate,
)
from gpuaas.workspaces.states import AccessRole

SAID = ("name", "members", "lease", "lease_ends_at", "placement", "storage_class", "class_gib")


def checked(here: ProjectPlace, source: Mapping[str, Any]) -> RequestForm:
    """Bound, and with the refusals that pressing the button would bring; nothing is said of a name not yet written."""
    form = RequestForm(source)
    form.is_valid()
    typed_only(form, "name")
    found = form.cleaned_data
    if found.get("name"):
        _try(form, lambda: _name(here, found["name"]))
    if found.get("storage_gib"):
        _try(form, lambda: storage_validate(found["storage_gib"]))
    site = _site(here, source) if form.classes() or found.get("placement") else None
    if site is not None:
        _try(form, lambda: storage_resolve(form.classes(), site=site))
        _try(form, lambda: placement_validate(found.get("placement", ""), site=site))
    others = [name for name in form.member_names() if name != here.user.username]
    if others:
        people = [(name, AccessRole.EDIT.value) for name in others]
        _try(form, lambda: members_resolve(people, project=here.project))
    return form


def _site(here: ProjectPlace, source: Mapping[str, Any]) -> Site | None:
    """Where the chosen flavor is."""
    flavor = flavor_of(here, str(source.get("flavor", "")))
    return None if flavor is None else flavor.pool.site


def flavor_of(here: ProjectPlace, slug: str) -> Flavor | None:
    return flavors_for(actor=here.actor).filter(slug=slug[:64]).first() if "\x00" not in slug else None


def amiss(form: RequestForm) -> str:
    """The first thing that would be refused beside a field which has no bearing on the price."""
    return next((f"{_label(form, name)}{form.errors[name][0]}" for name in SAID if name in form.errors), "")


def _label(form: RequestForm, name: str) -> str:
    return "" if name.startswith("lease") else f"{form[name].label}: "


def _name(here: ProjectPlace, name: str) -> None:
    if name_is_taken(project=here.project, name=name_validate(name)):
        raise Conflict(
            f"the project {here.project.slug} already has a workspace called {name}", detail={"field": "name"}
        )


def _try(form: RequestForm, rule: Callable[[], object]) -> None:
    try:
        rule()
    except (Invalid, Conflict) as error:
        refuse(form, error, fields={"storage_classes": "storage_class"})
