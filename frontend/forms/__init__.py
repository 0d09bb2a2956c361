"""Forms parse what browsers send; whether it may be is the services' question, whose refusals land on their fields."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import forms

from billing.money import EXPONENTIAL, OUT_IN_DIGITS
from frontend.formats import local_times
from gpuaas.catalog.models import Flavor
from gpuaas.core.errors import GpuaasError, Invalid, StaleVersion
from gpuaas.core.statemachine import TransitionLost
from gpuaas.core.validation import say_in_our_words
from quotas.resources import MEMORY, VCPU, flavor_resource
from tenants.models import Project

WHOLE = {"required": "Enter a number.", "invalid": "Enter a whole number."}
WRITTEN = {"invalid": "Enter a date as year-month-day and a time."}
# what is asked for where nothing was given, unless the field says it itself
ASKED = (
    (forms.FileField, "Choose a file."),
    (forms.MultipleChoiceField, "Choose at least one."),
    (forms.ChoiceField, "Choose one."),
    (forms.BooleanField, "Check this box."),
)
MISSING = forms.Field.default_error_messages["required"]


class Form(forms.Form):
    """All forms of pages are made of it: what is wrong is said in our words, also where a field brings only Django's. `stale`: it
    was refused because what it is about has changed meanwhile, so that only reading it again helps."""

    stale = False

    def add_error(self, field: str | None, error: Any) -> None:
        if hasattr(error, "error_list"):
            for each in error.error_list:
                if each.message is MISSING and field in self.fields:
                    each.message = asked_for(self.fields[field])
            say_in_our_words(error)
        super().add_error(field, error)


def asked_for(field: forms.Field) -> str:
    return next((words for kind, words in ASKED if isinstance(field, kind)), "Enter a value.")


class PlainDecimalField(forms.DecimalField):
    def to_python(self, value: Any) -> Any:
        if EXPONENTIAL.fullmatch(str(value or "").strip()):
            raise forms.ValidationError(sentence_of(OUT_IN_DIGITS))
        return super().to_python(value)


class RequiredText(forms.CharField):
    """`ask`: the sentence beside the field when it is empty."""

    def __init__(self, ask: str, max_length: int, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, error_messages={"required": ask}, **kwargs)


class ProjectField(RequiredText):
    """A project of any organization by its short name, as there are too many for a list; its page proposes some."""

    def __init__(self, ask: str, help_text: str, label: str = "Project") -> None:
        super().__init__(ask, 64, label=label, help_text=f"short name; {help_text}")

    def clean(self, value: Any) -> Project:
        found = Project.objects.select_related("organization").filter(slug=super().clean(value)).first()
        if found is None:
            raise forms.ValidationError("This project does not exist.")
        return found


def choices_set(form: forms.Form, name: str, choices: Iterable[tuple[str, str]]) -> None:
    """What one of its fields offers, where that is known only when the form is made."""
    field = form.fields[name]
    if not isinstance(field, forms.ChoiceField):
        raise TypeError(f"{name} offers no choices")
    field.choices = list(choices)


def keep_choice(form: forms.Form, name: str, words: str) -> None:
    """What a field begins with stays its choice where it is not offered: whether it can be is the service's question."""
    field, value = form.fields[name], form.initial.get(name)
    if not isinstance(field, forms.ChoiceField):
        raise TypeError(f"{name} offers no choices")
    if value and not field.valid_value(value):
        field.choices = [*field.choices, (value, words)]  # type: ignore[misc]


def refuse(
    form: forms.Form, error: GpuaasError, *, fields: Mapping[str, str] | None = None, default: str = ""
) -> None:
    """Put a service's refusal beside the field it is about. `fields` maps the service's names, and resources that have no room,
    to the form's."""
    names = dict(fields or {})
    if isinstance(form, Form) and isinstance(error, StaleVersion | TransitionLost):
        form.stale = True
    if error.fields:
        for name, sentences in error.fields.items():
            target = names.get(name, name)
            for sentence in sentences:
                form.add_error(target if target in form.fields else None, sentence_of(sentence))
        return
    named = str(error.detail.get("field", ""))
    target = names.get(named, named) or names.get(str(error.detail.get("resource", "")), default)
    form.add_error(target if target in form.fields else None, sentence_of(error.message))


def first_wrong(form: forms.Form) -> str:
    """The first error with the label of its field, as the sentence beside a button; empty where there is none."""
    name, errors = next(iter(form.errors.items()), ("", [""]))
    return f"{form[name].label}: {errors[0]}" if name in form.fields else str(errors[0])


def refuse_readable(form: forms.Form, wrong: Mapping[str, Sequence[str]]) -> None:
    """In `clean`: what a service finds wrong stands beside what could not be read, of which it knows nothing."""
    readable = {name: texts for name, texts in wrong.items() if name not in form.errors}
    if readable:
        refuse(form, Invalid("", fields=readable))


def sentence_of(text: str) -> str:
    """A service's message as a sentence that stands alone, with its times as the reader has them. A word such as vCPUs begins one
    as it is, and so does the name of a file or a field, such as old.csv:3."""
    first = text.partition(" ")[0]
    as_it_is = first != first.lower() or "." in first[:-1]
    sentence = local_times(text if as_it_is else text[:1].upper() + text[1:])
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def counts_of(flavors: Iterable[tuple[Flavor, str]]) -> dict[str, str]:
    """By resource, the field of the first flavor that asks for it: GPUs of a type, or a share of vCPU and memory."""
    found: dict[str, str] = {}
    for flavor, field in flavors:
        for resource in (flavor_resource(flavor), VCPU, MEMORY):
            found.setdefault(resource, field)
    return found
