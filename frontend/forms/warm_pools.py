"""Warm pools, as operators enter them."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput

from frontend.forms import WHOLE, Form, ProjectField, RequiredText, refuse, sentence_of
from frontend.forms.clusters import DOCUMENT_MAX
from gpuaas.core.errors import GpuaasError, Invalid


class DocumentField(forms.JSONField):
    """JSON nested too deeply for Python is refused like other invalid JSON. An empty object means: all defaults."""

    empty_values = [None, ""]

    def to_python(self, value: Any) -> Any:
        try:
            found = super().to_python(value)
        except (RecursionError, ValueError) as error:
            raise ValidationError("This is not valid JSON.") from error
        if found is not None and not isinstance(found, dict):
            raise ValidationError("Enter a JSON object, at least {}.")
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        try:
            return super().bound_data(data, initial)
        except (RecursionError, ValueError):
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> Any:
        return (
            value if isinstance(value, InvalidJSONInput) else json.dumps(value, indent=2, ensure_ascii=False)
        )


class WarmPoolChangeForm(Form):
    wanted = forms.IntegerField(label="Clusters to keep ready", error_messages=WHOLE)
    making_most = forms.IntegerField(
        label="Built at once, at most", error_messages=WHOLE, help_text="each uses free capacity of the site"
    )
    document = DocumentField(
        label="Configuration",
        max_length=DOCUMENT_MAX,
        error_messages={"required": "Enter at least {}.", "invalid": "This is not valid JSON."},
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
        help_text="Waiting clusters with another configuration are deleted once as many with this one are ready.",
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def take(self, error: GpuaasError) -> None:
        """A refusal beside its field; one about a place in the configuration names that place."""
        if not isinstance(error, Invalid):
            return refuse(self, error)
        for name, sentences in (error.fields or {"": [error.message]}).items():
            for sentence in map(sentence_of, sentences):
                known = name in self.fields
                self.add_error(
                    name if known else "document", sentence if known or not name else f"{name}: {sentence}"
                )
        return None


DEFAULTS = "As in an order, in JSON. Omitted fields use the defaults of the newest version each time."


class WarmPoolForm(WarmPoolChangeForm):
    """`confirmed` is set once the operator has reviewed the cost."""

    name = RequiredText("Enter a name.", 300, label="Name", help_text="for operators")
    project = ProjectField("Enter the project that pays.", "its limits apply and it pays")
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)
    field_order = ("name", "project", "wanted", "making_most", "document")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["document"].help_text = DEFAULTS
