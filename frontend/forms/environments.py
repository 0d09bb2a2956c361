"""Ordering and cloning an environment; an operator's kinds."""

from collections.abc import Sequence
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, RequiredText, Wrong, choices_set, refuse_readable, sentence_of
from frontend.forms.clusters import VersionForm, field_of, posted_of
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document
from gpuaas.core.schema_form import document_of, fields_of
from gpuaas.environments.definition import IDLE_MOST, LABELS, MOST, Definition
from gpuaas.environments.states import Access

Choices = Sequence[tuple[str, str]]
START = "parameters."


KEEP = (("4", "for 4 hours"), ("24", "for a day"), ("72", "for 3 days"), ("168", "for a week"))


def idle_field(definition: Definition) -> forms.IntegerField:
    """Empty: as the kind says."""
    most, whose = definition.idle_hours, "Empty: after the most that this kind allows, {most} hours."
    return forms.IntegerField(
        label="Stop after hours without use",
        required=False,
        help_text=whose.format(most=most) if most else "Empty: it is never stopped for that.",
        error_messages=WHOLE,
        widget=forms.NumberInput(attrs={"min": 1, "max": most or IDLE_MOST, "inputmode": "numeric"}),
    )


class IdleForm(Form):
    def __init__(self, *args: Any, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": "idle_%s"})
        self.fields["idle_hours"] = idle_field(definition)


# what each policy means, beside its name
WHO = {
    Access.PRIVATE: "Private: only its creator",
    Access.WORKSPACE: "Workspace: its admins and editors",
    Access.ORGANIZATION: "Organization: they, and all members of the organization",
    Access.PUBLIC: "Public with a key: they, and everybody who has a key",
}


def access_field(definition: Definition) -> forms.ChoiceField:
    return forms.ChoiceField(
        label="Who may open it",
        choices=[(each.value, WHO[each]) for each in definition.access],
        help_text="Your provider decides which of these a kind allows.",
        error_messages={"invalid_choice": "Choose one of those that this kind allows."},
    )


class AccessForm(Form):
    def __init__(self, *args: Any, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "auto_id": "access_%s"})
        self.fields["access"] = access_field(definition)


class KeyForm(Form):
    name = RequiredText("Enter a name.", 100, label="Name", help_text="To help you recognize it.")


class KeepForm(Form):
    hours = forms.TypedChoiceField(
        label="Keep it running",
        choices=KEEP,
        coerce=int,
        initial="24",
        error_messages={"required": "Choose for how long.", "invalid_choice": "Choose for how long."},
    )


class OrderForm(Form):
    """The parameters are one plain field each, by the schema of the kind."""

    workspace = forms.ChoiceField(
        label="Workspace",
        help_text="It uses what this workspace has bought. Only workspaces that are ready are listed.",
        error_messages={
            "required": "Choose a workspace.",
            "invalid_choice": "Choose one of the workspaces that are ready.",
        },
    )
    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="Lower-case letters, digits and hyphens."
    )
    gpu = forms.ChoiceField(
        label="GPU type", required=False, help_text="Only needed where the workspace has several."
    )

    def __init__(
        self,
        *args: Any,
        definition: Definition,
        workspaces: Choices,
        gpus: Choices,
        wrong: Wrong,
        **kwargs: Any,
    ) -> None:
        """wrong: what the service would refuse of an order in the workspace of that id."""
        super().__init__(*args, **kwargs)
        self.definition, self.wrong = definition, wrong
        choices_set(self, "workspace", workspaces)
        choices_set(self, "gpu", [("", "the workspace's own"), *gpus])
        for name, most in MOST.items():
            attrs = {"min": 0 if name == "gpus" else 1, "max": most, "inputmode": "numeric"}
            self.fields[name] = forms.IntegerField(
                label=LABELS[name],
                initial=definition.sizes[name],
                error_messages=WHOLE,
                widget=forms.NumberInput(attrs=attrs),
            )
        self.fields["idle_hours"] = idle_field(definition)
        self.fields["access"] = access_field(definition)
        self.leaves = fields_of(definition.parameters)
        for leaf in self.leaves:
            self.fields[START + leaf.name] = field_of(leaf)
        self.document: Document = {}

    def clean(self) -> dict[str, Any]:
        """What the service would refuse is said together with what cannot be read."""
        found = super().clean() or {}
        typed = posted_of(self, self.leaves, START)
        try:
            self.document = document_of(self.definition.parameters, typed)
        except Invalid as error:
            for name, sentences in error.fields.items():
                self.add_error(START + name, list(map(sentence_of, sentences)))
            readable = {name: text for name, text in typed.items() if name not in error.fields}
            self.document = document_of(self.definition.parameters, readable)
        refuse_readable(self, self.wrong(found.get("workspace", ""), self.asked()))
        return found

    def asked(self) -> dict[str, Any]:
        """What the service takes, but the workspace."""
        names = ("name", "gpu", "idle_hours", "access", *MOST)
        named = {name: self.cleaned_data[name] for name in names if name in self.cleaned_data}
        return {"name": "", **named, "parameters": self.document}

    def parameters(self) -> list[forms.BoundField]:
        return [self[START + leaf.name] for leaf in self.leaves]

    def sizes(self) -> list[forms.BoundField]:
        return [self[name] for name in MOST]


class CloneForm(Form):
    name = RequiredText("Enter a name.", 300, label="Name of the clone")


class KindForm(VersionForm):
    """A new kind with its first version."""

    slug = forms.CharField(label="Slug", max_length=40)
    name = forms.CharField(label="Name", max_length=100)
    description = forms.CharField(label="Description", max_length=300, required=False)
