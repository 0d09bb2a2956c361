"""What every page does around its own work: read what was sent, try a service, refuse beside the field, or say what was
done and go on. A view reads from top to bottom:

    form = KeyForm(posted(request))
    if form.is_valid():
        with refusals_on(form, Invalid, Conflict):
            made = keypair_add(actor=here.actor, **form.cleaned_data)
            return done(request, f"{made.name} is kept.", "frontend:keys")
    return draw_page(request, "account/keys.html", {"form": form})
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import urlencode

from frontend import toasts
from frontend.doors import CHECK, UNDONE, is_piece
from frontend.fields import kind_of
from frontend.forms import first_wrong, refuse, sentence_of
from frontend.forms.lease import typed_only
from gpuaas.core.errors import GpuaasError

M = TypeVar("M", bound=Model)
R = TypeVar("R", bound=HttpResponseBase)


def undo_by(to: str, *args: object, **values: str | int) -> str:
    """The address by which the Undo of a toast takes something back: a page's own action, with what it would be sent."""
    return f"{resolve_url(to, *args)}?{urlencode({**values, UNDONE: 1})}"


def sent(request: HttpRequest) -> QueryDict:
    """What an action was sent: in the body by its form, in the address by an Undo."""
    return request.GET if UNDONE in request.GET else request.POST


def posted(request: HttpRequest) -> QueryDict | None:
    """What was sent; None where the page is only looked at, so that a form made of it is not bound."""
    return request.POST if request.method == "POST" else None


class Fits(Exception):
    """Ends a check: what is asked would be done."""


def checked(view: Callable[..., R]) -> Callable[..., R]:
    """Of a view that tries a form. While it is filled in, its page asks at `?check` what would be refused: the view runs as far
    as `fits` or `done`, all that it wrote is taken back, and `draw_page` answers with what belongs beside fields and button."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> R:
        if request.method != "POST" or CHECK not in request.GET:
            return view(request, *args, **kwargs)
        vars(request)["checking"] = True
        with transaction.atomic():
            answer = view(request, *args, **kwargs)
            transaction.set_rollback(True)
        return answer

    return inner


def is_check(request: HttpRequest) -> bool:
    """Whether all that is written is taken back."""
    return hasattr(request, "checking")


def fits(request: HttpRequest) -> None:
    """After a service, inside the block that tells its refusals: a check goes no further."""
    if is_check(request):
        raise Fits


def _answer(request: HttpRequest, form: forms.Form, again: str) -> HttpResponse:
    """Beside fields that are still empty nothing is red; the button names the first of them that must not be. A file is read
    when it is sent: once one is chosen, it may be what the other fields lack."""
    files = [name for name, field in form.fields.items() if isinstance(field, forms.FileField)]
    if any(request.POST.get(name) for name in files):
        typed_only(form, *(name for name, field in form.fields.items() if not field.required))
        for name in files:
            form.errors.pop(name, None)
    why = first_wrong(form)
    typed_only(form, *form.fields)
    shown = [
        bound
        for bound in form.visible_fields()
        if bound.html_name in request.POST or kind_of(bound) != "text"
    ]
    context = {"fields": shown, "why": why, "stale": getattr(form, "stale", False), "again": again}
    return render(request, "components/checked.html", context)


class Refusals:
    """A block that ends where a service refuses with one of `errors`; `tell` gets the refusal and the view goes on."""

    def __init__(self, tell: Callable[[Any], object], *errors: type[GpuaasError]) -> None:
        self._tell, self._errors = tell, errors

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Fits):
            return True
        if not isinstance(error, self._errors):
            return False
        self._tell(error)
        return True


def refusals_on(
    form: forms.Form,
    *errors: type[GpuaasError],
    fields: Mapping[str, str] | None = None,
    default: str = "",
) -> Refusals:
    """Refusals land beside the field that they are about; `fields` and `default` as in `refuse`."""
    return Refusals(partial(refuse, form, fields=fields, default=default), *errors)


def refusals_shown(request: HttpRequest, *errors: type[GpuaasError]) -> Refusals:
    """For what is asked by one click: a refusal becomes a message on the page that the view goes on to."""
    return Refusals(lambda error: messages.error(request, sentence_of(error.message)), *errors)


def name_typed(request: HttpRequest, name: str, *, done: str = "deleted", do: str = "delete") -> bool:
    """Whether it was typed to confirm. If not, the page that is drawn next comes with its dialog open, what was typed, and what
    to type."""
    if request.POST.get("confirm_name") == name:
        return True
    vars(request)["misnamed"] = f"Nothing was {done}: type {name} exactly to {do} it."
    return False


def done(request: HttpRequest, text: str, to: str, *args: object, undo: str = "") -> HttpResponse:
    """`to` is an address, or the name of one with its `args`; `undo` one of `undo_by`. What is undone has none itself."""
    fits(request)
    undone = UNDONE in request.GET
    messages.success(request, text, extra_tags="" if undone else undo)
    if undone and is_piece(request):  # from whatever page the toast stood on
        return HttpResponse(status=204, headers={"HX-Refresh": "true"})
    return redirect(to, *args)


def done_here(request: HttpRequest, text: str, to: str, *, undo: str = "") -> HttpResponse:
    """`done` for a page that fetches itself on the event: a script gets a toast alone, with its undo."""
    if is_piece(request):
        return toasts.answer(tone="ok", title=text, undo=undo)
    return done(request, text, to, undo=undo)


def draw_page(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, refused: bool = False
) -> HttpResponse:
    """With status 422 where it says what was `refused`, as every form with errors does."""
    tried = [each for each in context.values() if isinstance(each, forms.Form) and each.is_bound]
    if tried and is_check(request):
        return _answer(request, tried[0], str(context.get("again", "")))
    refused = refused or hasattr(request, "misnamed") or any(form.errors for form in tried)
    return render(request, template, context, status=422 if refused else 200)


def draw_piece(request: HttpRequest, template: str, context: Mapping[str, Any]) -> HttpResponse:
    """`room/_part.html` where a script asks for the part, else the page `room/part.html` around it."""
    room, _, name = template.rpartition("/")
    return render(request, f"{room}/_{name}" if is_piece(request) else template, context)


def number_of(text: str) -> int | None:
    """A whole number of up to 9 digits, as typed or named in an address; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def version_read(request: HttpRequest) -> int | None:
    """Of what was on the page whose button was pressed."""
    return number_of(request.POST.get("version", ""))
