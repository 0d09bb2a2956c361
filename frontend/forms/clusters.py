"""The form of an order, made from its template's schema; scaling, upgrading, and an operator's templates."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, RequiredText, choices_set, counts_of, refuse
from frontend.forms.lease import LeaseForm
from gpuaas.clusters.definition import Definition
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import burst_places
from gpuaas.clusters.services import Draft
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document, document_check
from gpuaas.core.schema_form import NO, YES, FieldKind, FormField, document_of, fields_of
from quotas.resources import MEMORY, STORAGE, VCPU

DOCUMENT_MAX = 60_000  # characters; what the API takes as one body
NAMES = {"": "Cluster", "addons": "Add-ons", "parameters": "Parameters"}


def _placed(leaf: FormField, places: Mapping[str, str]) -> FormField:
    """Adds the site to the names of flavors at another site."""
    if not leaf.name.endswith(".flavor"):
        return leaf
    shown = (
        (value, f"{word}, at {places[value]}" if value in places else word) for value, word in leaf.choices
    )
    return replace(leaf, choices=tuple(shown))


@dataclass(frozen=True)
class Section:
    """A group of fields: of the cluster, a pool, the add-ons or the parameters."""

    title: str
    note: str
    fields: tuple[forms.BoundField, ...]


class OrderForm(LeaseForm):
    """One plain field per leaf of the schema, named by its path; `gpuaas.core.schema_form` reads it back without a loss."""

    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="1 to 20 lower-case letters, digits and hyphens."
    )
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

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        try:
            self.document = document_of(self.schema, posted_of(self, self.leaves))
            document_check(self.schema, self.document)
        except Invalid as error:
            refuse(self, error)
        return found

    def beside(self) -> list[forms.BoundField]:
        """The fields that are checked while they are typed; the lease shows its errors itself."""
        return [self["name"], *(self[leaf.name] for leaf in self.leaves)]

    def fields_of(self, draft: Draft) -> dict[str, str]:
        """Beside which field a limit of each resource is told: of the first pool with workers that ask for it, else of the control
        plane, where its size can be chosen."""
        asked = (pool for pool in draft.pools if pool.count)
        found = counts_of((pool.flavor, f"pools.{pool.name}.count") for pool in asked)
        control = dict.fromkeys((VCPU, MEMORY, STORAGE), "control_plane")
        return {name: field for name, field in {**control, **found}.items() if field in self.fields}

    def sections(self) -> list[Section]:
        """In the order of the schema, without empty sections."""
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
            note=f"always included: {', '.join(always)}" if always else "",
        )
        yield self._section("parameters", lambda path: path[0] == "parameters")

    def _section(self, title: str, belongs: Any, *, note: str = "") -> Section:
        names = [leaf.name for leaf in self.leaves if belongs(leaf.name.split("."))]
        return Section(NAMES.get(title, title), note, tuple(self[name] for name in names))


def posted_of(form: forms.Form, leaves: Iterable[FormField], start: str = "") -> dict[str, str]:
    """The values as `gpuaas.core.schema_form` reads them: an unchecked box is NO. `start`: of the names of fields."""
    values = {}
    for leaf in leaves:
        value = form.data.get(start + leaf.name)
        if isinstance(form.fields[start + leaf.name], forms.BooleanField):
            values[leaf.name] = YES if value else NO
        else:
            values[leaf.name] = str(value or "").strip()
    return values


def field_of(leaf: FormField) -> forms.Field:
    """A plain field; the schema checks its value."""
    common: dict[str, Any] = {
        "label": leaf.label,
        "help_text": leaf.help,
        "required": leaf.required and leaf.kind is not FieldKind.SWITCH,
        "initial": leaf.default,
    }
    match leaf.kind:
        case FieldKind.SWITCH if leaf.default or leaf.required:
            return forms.BooleanField(**common | {"initial": leaf.default == YES})
        case FieldKind.SWITCH:
            return forms.CharField(**common, widget=_select((("", "not set"), (YES, "yes"), (NO, "no"))))
        case FieldKind.CHOICE:
            blank = () if leaf.required and leaf.default else (("", "not set"),)
            return forms.CharField(**common, widget=_select((*blank, *leaf.choices)))
        case FieldKind.NUMBER:
            attrs = {"min": leaf.minimum, "max": leaf.maximum, "inputmode": "numeric"}
            return forms.CharField(**common, widget=forms.NumberInput(attrs=attrs))
        case FieldKind.LINES:
            return forms.CharField(**common, widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}))
    return forms.CharField(**common, widget=forms.TextInput(attrs={"maxlength": leaf.max_length}))


def _select(choices: tuple[tuple[str, str], ...]) -> forms.Select:
    return forms.Select(choices=choices)


class ScaleForm(Form):
    """One count per pool."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)

    def __init__(self, *args: Any, cluster: Cluster, definition: Definition, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pools = list(cluster.pools.all())
        self.read: dict[str, int] = {}
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
                error_messages=WHOLE,
            )

    def clean(self) -> dict[str, Any]:
        """What was typed stays readable when a service refuses it."""
        found = super().clean() or {}
        typed = {pool.name: found.get(self.key(pool.name)) for pool in self.pools}
        self.read = {name: count for name, count in typed.items() if count is not None}
        return found

    @staticmethod
    def key(pool: str) -> str:
        """The name of the field in the service's errors."""
        return f"pools.{pool}"

    def counts(self) -> list[forms.BoundField]:
        return [self[self.key(pool.name)] for pool in self.pools]

    def fields_of(self) -> dict[str, str]:
        """Beside which field a limit of each resource is told."""
        return counts_of((pool.flavor, self.key(pool.name)) for pool in self.pools)

    def wanted(self) -> dict[str, int]:
        """The counts that could be parsed; all of them if the form is valid."""
        return self.read if self.is_bound and self.errors is not None else {}


class UpgradeForm(Form):
    release = forms.ChoiceField(label="Release")
    first_pool = forms.ChoiceField(label="Workers", required=False)

    def __init__(self, *args: Any, releases: list[str], pools: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["release"] = forms.ChoiceField(label="Release", choices=[(one, one) for one in releases])
        pool_choices = [("", "all pools"), *((name, f"only {name}, to try it") for name in pools)]
        self.fields["first_pool"] = forms.ChoiceField(
            label="Workers",
            choices=pool_choices,
            required=False,
            help_text="Upgrade one pool first to test your jobs on the new release, then upgrade the rest.",
        )


class TemplateForm(Form):
    """A new template; the service validates it."""

    slug = forms.CharField(
        label="Slug", max_length=40, help_text="1 to 40 lower-case letters, digits and hyphens; permanent."
    )
    name = forms.CharField(label="Name", max_length=100, help_text="The name that tenants see.")
    summary = forms.CharField(
        label="Summary", max_length=300, required=False, help_text="Its purpose, in one line."
    )
    kind = forms.ChoiceField(label="Kind")
    site = forms.ChoiceField(label="Site")
    driver = forms.ChoiceField(label="Driver", help_text="What builds it at the site.")

    def __init__(self, *args: Any, choices: Mapping[str, list[tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, values in choices.items():
            choices_set(self, name, values)


class VersionForm(Form):
    """A document, pasted or uploaded; a file wins."""

    about = "JSON. Starts with the newest version."
    document = forms.CharField(
        label="Document",
        required=False,
        max_length=DOCUMENT_MAX,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false"}),
    )
    file = forms.FileField(label="Or upload a file", required=False, help_text="Instead of the text above.")
    note = forms.CharField(
        label="Note", max_length=300, required=False, help_text="What is new, for other operators."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["document"].help_text = self.about

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        uploaded = found.get("file")
        if uploaded is not None and uploaded.size > DOCUMENT_MAX:
            self.add_error("file", f"The file is larger than {DOCUMENT_MAX:,} characters.")
            return found
        text = uploaded.read() if uploaded is not None else found.get("document", "")
        if uploaded is None and not text.strip():
            self.add_error("document", "Paste a document or choose its file.")
            return found
        try:
            found["parsed"] = json.loads(text)
        except UnicodeDecodeError:
            self.add_error("file", "The file is not text.")
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            self.add_error(
                "file" if uploaded else "document", f"This is not valid JSON: {error.msg} at {where}."
            )
        except (ValueError, RecursionError):
            self.add_error("file" if uploaded else "document", "This is not valid JSON.")
        return found


class HostsForm(VersionForm):
    about = "JSON: a list of hosts. A host that a cluster holds can be changed after it is released."
    note = None  # type: ignore[assignment]  # takes the field away
