"""Form fields that a driver declares by JSON Schema: built, read back, and refused beside the field."""

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from frontend.forms import WHOLE, sentence_of
from frontend.forms.clusters import field_of
from gpuaas.core.declaration import DOCUMENT_MAX, declared_check
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document, Schema
from gpuaas.core.schema_form import FieldKind, FormField, document_of, fields_of, form_of


class Sealed(forms.Textarea):
    """Takes a secret and never shows it again, not even when the form is refused."""

    def format_value(self, value: object) -> str | None:
        del value
        return None


class Declared:
    """The fields of one schema in one form; of a document also a field for its file."""

    def __init__(self, form: forms.Form, schema: Schema, *, at: str) -> None:
        """`at`: the name of the document in the service's errors."""
        self.form, self.schema, self.at = form, schema, at
        self.leaves = {leaf.name: leaf for leaf in fields_of(schema)}
        for leaf in self.leaves.values():
            form.fields[leaf.name] = _field(leaf)
            if leaf.kind is FieldKind.DOCUMENT:
                form.fields[_file(leaf.name)] = forms.FileField(required=False, label="Or upload a file")

    @property
    def fields(self) -> list[tuple[forms.BoundField, bool]]:
        """Each field, and whether it takes the full width."""
        return [(self.form[name], wide) for name, wide in self._shown()]

    def _shown(self) -> Iterator[tuple[str, bool]]:
        for name, leaf in self.leaves.items():
            yield name, leaf.kind in {FieldKind.DOCUMENT, FieldKind.PAIRS}
            if leaf.kind is FieldKind.DOCUMENT:
                yield _file(name), True

    @property
    def unread(self) -> bool:
        """Whether some of it could not be read, so that there is nothing to judge."""
        return any(name in self.form.errors for name, _ in self._shown())

    def read(self) -> Document:
        """What was entered, without empty fields. Errors are added to their fields."""
        posted = {name: self._posted(leaf) for name, leaf in self.leaves.items()}
        try:
            found = document_of(self.schema, posted)
        except Invalid as error:
            self.refuse({f"{self.at}.{name}": messages for name, messages in error.fields.items()})
            return {}
        return {name: value for name, value in found.items() if value not in ({}, [])}

    def _posted(self, leaf: FormField) -> str:
        given = self.form.cleaned_data.get(leaf.name)
        text = "" if given is None else str(given).strip()
        if leaf.kind is FieldKind.LINES:
            return "\n".join(filter(None, map(str.strip, text.replace(",", "\n").splitlines())))
        upload = self.form.cleaned_data.get(_file(leaf.name))
        if not upload:
            return text
        if text:
            self.form.add_error(_file(leaf.name), "Paste it or choose a file, not both.")
        return self._content(leaf, upload)

    def _content(self, leaf: FormField, upload: Any) -> str:
        if upload.size > DOCUMENT_MAX:
            message = f"The file is too large: a {words_of(leaf)} has less than 256 KiB."
            self.form.add_error(_file(leaf.name), message)
            return ""
        try:
            return str(upload.read().decode("utf-8")).strip()
        except UnicodeDecodeError:
            self.form.add_error(_file(leaf.name), "This file is not text.")
            return ""

    def lacks(self) -> None:
        """Refuses an empty value that is required."""
        leaf = next(iter(self.leaves.values()))
        by_file = leaf.kind is FieldKind.DOCUMENT
        message = f"Paste the new {words_of(leaf)} or choose its file." if by_file else "Enter a value."
        self.form.add_error(leaf.name, message)

    def refuse(self, fields: Mapping[str, list[str]]) -> None:
        """Puts a service's errors beside the field that is named, or that the sentence begins with, or the first one."""
        for key, sentences in fields.items():
            for sentence in sentences:
                self.form.add_error(self._field_of(key, sentence), sentence_of(sentence))

    def _field_of(self, key: str, sentence: str) -> str | None:
        named = key.removeprefix(self.at).removeprefix(".") or sentence.split(" ", 1)[0].rstrip(":")
        inside = (name for name in self.leaves if name == named or name.startswith(f"{named}."))
        return next(inside, next(iter(self.leaves), None))


class AnyObject:
    """Replaces `Declared` for drivers that declare no schema: a JSON object."""

    def __init__(self, form: forms.Form, *, at: str) -> None:
        self.form, self.at = form, at
        form.fields["text"] = forms.JSONField(
            label="Options",
            required=False,
            help_text="a JSON object; it replaces the current one",
            widget=forms.Textarea({"rows": 6, "spellcheck": "false"}),
            error_messages={"invalid": "This is not valid JSON."},
        )

    @property
    def fields(self) -> list[tuple[forms.BoundField, bool]]:
        return [(self.form["text"], True)]

    @property
    def unread(self) -> bool:
        return "text" in self.form.errors

    def read(self) -> Document:
        found = self.form.cleaned_data.get("text") or {}
        if isinstance(found, dict):
            return found
        self.form.add_error("text", 'Enter a JSON object, for example {"routes": true}.')
        return {}

    def refuse(self, fields: Mapping[str, list[str]]) -> None:
        for sentence in (one for messages in fields.values() for one in messages):
            self.form.add_error("text", sentence_of(sentence))


def shown(schema: Schema, document: Mapping[str, Any]) -> dict[str, str]:
    """The current values as form input; values that do not match the schema are left out."""
    known = {name: value for name, value in document.items() if _fits(schema, name, value)}
    return form_of(schema, known)


def _fits(schema: Schema, name: str, value: Any) -> bool:
    try:
        declared_check({**schema, "required": []}, {name: value}, at="")
    except Invalid:
        return False
    return True


def words_of(leaf: FormField) -> str:
    """The name of the field in the middle of a sentence: the kubeconfig, the clouds.yaml, the API token."""
    return leaf.label if leaf.label[1:2].isupper() else leaf.label[:1].lower() + leaf.label[1:]


def _file(name: str) -> str:
    return f"{name}_file"


def _field(leaf: FormField) -> forms.Field:
    common: dict[str, Any] = {"label": leaf.label, "help_text": leaf.help, "required": False}
    area = {"rows": 6, "spellcheck": "false", "autocomplete": "off"}
    match leaf.kind:
        case FieldKind.DOCUMENT:
            widget = Sealed(attrs=area) if leaf.secret else forms.Textarea(attrs=area)
            return forms.CharField(**common, max_length=leaf.max_length, widget=widget)
        case FieldKind.NUMBER:
            common |= {"min_value": leaf.minimum, "max_value": leaf.maximum}
            return forms.IntegerField(**common, error_messages=WHOLE)
        case FieldKind.CHOICE:
            return forms.ChoiceField(**common, choices=(("", "not set"), *leaf.choices))
        case FieldKind.PAIRS:
            return forms.CharField(**common, max_length=4000, widget=forms.Textarea({"rows": 2}))
        case FieldKind.TEXT if leaf.secret:
            hidden = forms.PasswordInput(attrs={"autocomplete": "off"})
            return forms.CharField(**common, max_length=leaf.max_length, widget=hidden)
        case FieldKind.TEXT:
            return forms.CharField(**common, max_length=leaf.max_length)
    return field_of(leaf)
