"""Clusters that are kept ready, as operators say it."""

import json
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput

from frontend.forms import refuse, sentence_of
from frontend.forms.clusters import DOCUMENT_MAX
from gpuaas.core.errors import GpuaasError, Invalid

WHOLE = {"required": "Say how many.", "invalid": "This is a whole number."}


class DocumentField(forms.JSONField):
    """What nests deeper than Python reads is refused like all else that is no JSON. An empty object is a choice: all defaults."""

    empty_values = [None, ""]

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except (RecursionError, ValueError) as error:
            raise ValidationError("This is no JSON that can be read.") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return super().bound_data(data, initial)
        except (RecursionError, ValueError):
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        return (
            value if isinstance(value, InvalidJSONInput) else json.dumps(value, indent=2, ensure_ascii=False)
        )


class WarmPoolChangeForm(forms.Form):
    wanted = forms.IntegerField(label="Kept ready", error_messages=WHOLE)
    making_most = forms.IntegerField(label="Made at once", error_messages=WHOLE)
    document = DocumentField(
        label="Choice",
        max_length=DOCUMENT_MAX,
        error_messages={"required": "Say at least {}.", "invalid": "This is no JSON."},
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def take(self, error: GpuaasError) -> None:
        """A refusal beside its field; what is about a place in the choice names the place."""
        if not isinstance(error, Invalid):
            return refuse(self, error)
        for name, sentences in (error.fields or {"": [error.message]}).items():
            for said in map(sentence_of, sentences):
                known = name in self.fields
                self.add_error(
                    name if known else "document", said if known or not name else f"{name}: {said}"
                )
        return None


class WarmPoolForm(WarmPoolChangeForm):
    """`confirmed` is set once what it costs has been looked at."""

    name = forms.CharField(label="Name", max_length=300, error_messages={"required": "Give it a name."})
    project = forms.ChoiceField(
        label="Where they wait",
        error_messages={
            "required": "Choose who pays for them.",
            "invalid_choice": "There is no such project.",
        },
    )
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)
    field_order = ("name", "project", "wanted", "making_most", "document")

    def __init__(self, *args: Any, projects: Iterable[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.fields["project"]
        if isinstance(chosen, forms.ChoiceField):
            chosen.choices = [("", "choose"), *projects]
