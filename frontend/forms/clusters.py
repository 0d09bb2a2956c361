"""The form of an order, made from its template's schema; scaling, upgrading, and an operator's templates."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django import forms

from frontend.forms import refuse
from frontend.forms.lease import LeaseForm
from gpuaas.clusters.definition import Definition
from gpuaas.clusters.forms import NO, YES, FieldKind, FormField, document_of, fields_of
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.schema import Document, document_check
from gpuaas.clusters.selectors import burst_places
from gpuaas.core.errors import Invalid

DOCUMENT_MAX = 60_000  # characters; what the API takes as one body
NAMES = {"": "Cluster", "addons": "Add-ons", "parameters": "Parameters"}


def _placed(leaf: FormField, places: Mapping[str, str]) -> FormField:
    """Of a pool's flavors those that are elsewhere say where."""
    if not leaf.name.endswith(".flavor"):
        return leaf
    shown = (
        (value, f"{word}, at {places[value]}" if value in places else word) for value, word in leaf.choices
    )
    return replace(leaf, choices=tuple(shown))


@dataclass(frozen=True)
class Section:
    """Fields that belong together: the cluster's own, a pool's, the add-ons, the parameters."""

    title: str
    note: str
    fields: tuple[forms.BoundField, ...]


class OrderForm(LeaseForm):
    """One plain field per leaf of the schema, named by its path; `gpuaas.clusters.forms` reads it back without a loss."""

    name = forms.CharField(label="Name", max_length=300, error_messages={"required": "Give it a name."})
    number = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, definition: Definition, number: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        places = burst_places(definition=definition)
        self.definition = definition
        self.schema = definition.schema
        self.leaves = fields_of(self.schema)
        self.fields["number"].initial = number
        for leaf in self.leaves:
            self.fields[leaf.name] = field_of(_placed(leaf, places))
        self.document: Document = {}

    def posted(self) -> dict[str, str]:
        """As the room reads it: a box that is not ticked says no."""
        said = {}
        for leaf in self.leaves:
            value = self.data.get(leaf.name)
            if isinstance(self.fields[leaf.name], forms.BooleanField):
                said[leaf.name] = YES if value else NO
            else:
                said[leaf.name] = str(value or "").strip()
        return said

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        try:
            self.document = document_of(self.schema, self.posted())
            document_check(self.schema, self.document)
        except Invalid as error:
            refuse(self, error)
        return found

    def sections(self) -> list[Section]:
        """In the order of the schema; what has no fields is left out."""
        return [section for section in self._sections() if section.fields]

    def _sections(self) -> Iterator[Section]:
        yield self._section("", lambda path: len(path) == 1)
        for pool in self.definition.pools:
            yield self._section(
                f"Pool {pool.name}",
                lambda path, name=pool.name: path[:2] == ["pools", name],
                note=f"{pool.minimum} to {pool.maximum} workers",
            )
        always = [one.label for one in self.definition.addons if one.required]
        yield self._section(
            "addons",
            lambda path: path[0] == "addons",
            note=f"always: {', '.join(always)}" if always else "",
        )
        yield self._section("parameters", lambda path: path[0] == "parameters")

    def _section(self, title: str, belongs: Any, *, note: str = "") -> Section:
        names = [leaf.name for leaf in self.leaves if belongs(leaf.name.split("."))]
        return Section(NAMES.get(title, title), note, tuple(self[name] for name in names))


def field_of(leaf: FormField) -> forms.Field:
    """Only its shape: what may be in it is said by the schema."""
    said: dict[str, Any] = {
        "label": leaf.label,
        "help_text": leaf.help,
        "required": leaf.required and leaf.kind is not FieldKind.SWITCH,
        "initial": leaf.default,
        "error_messages": {"required": "This is needed."},
    }
    match leaf.kind:
        case FieldKind.SWITCH if leaf.default or leaf.required:
            return forms.BooleanField(**said | {"initial": leaf.default == YES})
        case FieldKind.SWITCH:
            return forms.CharField(**said, widget=_select((("", "not set"), (YES, "yes"), (NO, "no"))))
        case FieldKind.CHOICE:
            blank = () if leaf.required and leaf.default else (("", "not set"),)
            return forms.CharField(**said, widget=_select((*blank, *leaf.choices)))
        case FieldKind.NUMBER:
            attrs = {"min": leaf.minimum, "max": leaf.maximum, "inputmode": "numeric"}
            return forms.CharField(**said, widget=forms.NumberInput(attrs=attrs))
        case FieldKind.LINES:
            return forms.CharField(**said, widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}))
    return forms.CharField(**said, widget=forms.TextInput(attrs={"maxlength": leaf.max_length}))


def _select(choices: tuple[tuple[str, str], ...]) -> forms.Select:
    return forms.Select(choices=choices)


class ScaleForm(forms.Form):
    """One count per pool."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, cluster: Cluster, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pools = list(cluster.pools.all())
        self.fields["version"].initial = cluster.version
        for pool in self.pools:
            bounds = definition.pool(pool.name)
            self.fields[self.key(pool.name)] = forms.IntegerField(
                label=f"{bounds.label}: workers",
                help_text=f"{pool.flavor.name} each, {bounds.minimum} to {bounds.maximum}.",
                initial=pool.count,
                widget=forms.NumberInput(
                    attrs={"min": bounds.minimum, "max": bounds.maximum, "inputmode": "numeric"}
                ),
                error_messages={"required": "Say how many.", "invalid": "A whole number, please."},
            )

    @staticmethod
    def key(pool: str) -> str:
        """As the service names it in its refusals."""
        return f"pools.{pool}"

    def counts(self) -> list[forms.BoundField]:
        return [self[self.key(pool.name)] for pool in self.pools]

    def wanted(self) -> dict[str, int]:
        """What can be read; all of it where the form is valid."""
        found = {pool.name: self.cleaned_data.get(self.key(pool.name)) for pool in self.pools}
        return {name: count for name, count in found.items() if count is not None}


class UpgradeForm(forms.Form):
    release = forms.ChoiceField(label="Release")
    first_pool = forms.ChoiceField(label="Workers", required=False)

    def __init__(self, *args: Any, releases: list[str], pools: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["release"] = forms.ChoiceField(label="Release", choices=[(one, one) for one in releases])
        pool_choices = [("", "all pools"), *((name, f"only {name}, to try it") for name in pools)]
        self.fields["first_pool"] = forms.ChoiceField(label="Workers", choices=pool_choices, required=False)


class TemplateForm(forms.Form):
    """A new template; the service says what is wrong with it."""

    slug = forms.CharField(label="Slug", max_length=40)
    name = forms.CharField(label="Name", max_length=100)
    summary = forms.CharField(label="Summary", max_length=300, required=False)
    kind = forms.ChoiceField(label="Kind")
    site = forms.ChoiceField(label="Site")
    driver = forms.ChoiceField(label="Driver")

    def __init__(self, *args: Any, choices: Mapping[str, list[tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, values in choices.items():
            self.fields[name] = forms.ChoiceField(label=self.fields[name].label, choices=values)


class VersionForm(forms.Form):
    """A document, pasted or uploaded; a file wins."""

    document = forms.CharField(
        label="Document",
        required=False,
        max_length=DOCUMENT_MAX,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false"}),
    )
    file = forms.FileField(label="Or upload a file", required=False)
    note = forms.CharField(label="Note", max_length=300, required=False)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        uploaded = found.get("file")
        if uploaded is not None and uploaded.size > DOCUMENT_MAX:
            self.add_error("file", f"The file is larger than {DOCUMENT_MAX:,} characters.")
            return found
        text = uploaded.read() if uploaded is not None else found.get("document", "")
        try:
            found["parsed"] = json.loads(text)
        except UnicodeDecodeError:
            self.add_error("file", "The file is no text.")
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            self.add_error("file" if uploaded else "document", f"This is no JSON: {error.msg} at {where}.")
        except (ValueError, RecursionError):
            self.add_error("file" if uploaded else "document", "This is no JSON that can be read.")
        return found
