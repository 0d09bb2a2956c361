"""Sites, as operators attach them: what every site has, and what its driver declares."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from frontend.forms import WHOLE, Form, RequiredText, refuse, refuse_readable
from frontend.forms.declared import AnyObject, Declared, shown
from gpuaas.catalog.services import options_fingerprint, site_wrong
from gpuaas.core.errors import Invalid
from gpuaas.core.schema import Document
from gpuaas.providers.base import DriverKind
from gpuaas.providers.registry import site_kinds

CREDENTIALS, OPTIONS = "credentials", "options"


class StorageSellForm(Form):
    """Which class of a site is sold, and as what."""

    slug = forms.CharField(
        label="Short name",
        max_length=40,
        required=False,
        help_text="unique in the portal, for example fast-ber-1; it stays",
    )
    field_order = ("name", "slug")

    def __init__(self, *args: Any, names: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        unknown = "The site has no such class that can be sold. Choose another."
        self.fields["name"] = forms.ChoiceField(
            label="Storage class",
            choices=[("", "Choose"), *((name, name) for name in names)],
            error_messages={"required": "Choose a class.", "invalid_choice": unknown},
        )
        self.order_fields(self.field_order)


class SiteForm(Form):
    slug = RequiredText(
        "Enter a short name, for example ber-2.",
        40,
        label="Short name",
        help_text="lower-case letters, digits, hyphens; shown in every list",
    )
    name = RequiredText("Enter a name.", 100)
    driver = forms.ChoiceField(
        choices=lambda: [(kind.name, kind.label) for kind in site_kinds()], widget=forms.HiddenInput
    )
    endpoint = forms.CharField(label="API address", max_length=300, required=False)
    oversubscription_percent = forms.IntegerField(
        label="Oversubscription",
        initial=100,
        error_messages=WHOLE,
        help_text="100 sells every healthy GPU once",
    )

    def __init__(self, *args: Any, kind: DriverKind, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "initial": {"driver": kind.name}})
        self.fields["endpoint"].help_text = kind.endpoint
        if not kind.endpoint:
            del self.fields["endpoint"]
        self.own = list(self.fields)
        self.credentials = Declared(self, kind.credentials, at=CREDENTIALS)
        self.options = Declared(self, kind.options, at=OPTIONS) if kind.options else None

    def clean(self) -> dict[str, Any]:
        """What cannot be read and what the service would refuse are named at once."""
        found = super().clean() or {}
        self.given = {
            CREDENTIALS: self.credentials.read(),
            OPTIONS: self.options.read() if self.options else {},
        }
        if "driver" not in self.errors:
            self.tell(site_wrong(**self.values()))
        return found

    def values(self) -> dict[str, Any]:
        """As the service takes them; what could not be read has its usual value."""
        usual = {name: self.fields[name].initial or "" for name in self.own}
        return {
            **usual,
            **{name: self.cleaned_data[name] for name in self.own if name in self.cleaned_data},
            **self.given,
        }

    def refuse(self, error: Invalid) -> None:
        if error.fields:
            self.tell(error.fields)
        else:
            refuse(self, error)

    def tell(self, wrong: Mapping[str, list[str]]) -> None:
        """Beside each field that could be read."""
        parts = {CREDENTIALS: self.credentials, OPTIONS: self.options}
        read = {name for name, part in parts.items() if part is not None and not part.unread}
        for key, sentences in wrong.items():
            name = key.partition(".")[0]
            part = parts.get(name)
            if part is None:
                refuse_readable(self, {key: sentences})
            elif name in read:
                part.refuse({key: sentences})


class CredentialsForm(Form):
    """All credentials at once; those that are stored are never shown."""

    def __init__(self, *args: Any, kind: DriverKind, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.part = Declared(self, kind.credentials, at=CREDENTIALS)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        self.given: Document = self.part.read()
        if not self.given and not self.errors:
            self.part.lacks()
        return found


class OptionsForm(Form):
    fingerprint = forms.CharField(max_length=16, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, kind: DriverKind, before: Document, **kwargs: Any) -> None:
        schema, self.before = kind.options, before
        initial = {"text": before} if schema is None else shown(schema, before)
        read = {"fingerprint": options_fingerprint(before)}
        super().__init__(*args, **{**kwargs, "initial": initial | read})
        self.known = set() if schema is None else set(schema["properties"])
        self.part = AnyObject(self, at=OPTIONS) if schema is None else Declared(self, schema, at=OPTIONS)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        self.given: Document = self.part.read()
        return found

    def options(self) -> Document:
        """Empty fields are left to the driver; options that this form does not know stay unchanged."""
        kept = {name: value for name, value in self.before.items() if self.known and name not in self.known}
        return {**kept, **self.given}
