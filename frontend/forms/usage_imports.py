"""A file of usage that was metered elsewhere, as operators upload it."""

import binascii
from base64 import b64decode, b64encode
from typing import Any

from django import forms

from billing.files import file_name
from frontend.forms import Form
from gpuaas.metering.imports import LONGEST_NAME, Overlap

LARGEST = 1_000_000  # bytes: it travels once more with the answer to the question


class UsageImportForm(Form):
    """`content` is the file of a preview, sent again with the answer, and `called` its name."""

    file = forms.FileField(
        label="File",
        error_messages={"required": "Choose a usage.csv."},
        help_text="usage.csv, at most 1 MB. Larger files: gpuaas-portal usage_import.",
    )
    content = forms.CharField(required=False, widget=forms.HiddenInput, strip=False)
    called = forms.CharField(required=False, widget=forms.HiddenInput)
    name = forms.CharField(
        label="Name",
        max_length=LONGEST_NAME,
        required=False,
        help_text="Empty means the name of the file.",
    )
    overlap_file = forms.BooleanField(label="Rows of the file may overlap each other", required=False)
    overlap_imports = forms.BooleanField(label="Rows may overlap other imports", required=False)
    overlap_metered = forms.BooleanField(label="Rows may overlap what the portal metered", required=False)
    reopen = forms.BooleanField(
        label="Usage may be of months that are long closed or before all others", required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["file"].required = not self.data.get("content")
        if called := self.initial.get("called"):  # no browser lets a page choose a file
            self.fields["file"].help_text = f"Choose {file_name(called)} again, or another file."

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        uploaded = found.get("file")
        if uploaded is not None and uploaded.size > LARGEST:
            self.add_error(
                "file", f"The file is larger than {LARGEST:,} bytes. Use gpuaas-portal usage_import."
            )
        elif uploaded is not None:
            found["data"], found["called"] = uploaded.read(), uploaded.name
        else:
            try:
                found["data"] = b64decode(found.get("content", ""), validate=True)
            except (binascii.Error, ValueError):
                found["data"] = b""
        if not found.get("data") and "file" not in self.errors:
            self.add_error("file", "Choose a usage.csv.")
        return found

    @property
    def asked(self) -> dict[str, Any]:
        """What the service takes."""
        given = self.cleaned_data
        overlaps = [kind for kind in Overlap if given[f"overlap_{kind.value}"]]
        return {"name": given["name"], "overlaps": overlaps, "reopen": given["reopen"]}

    @property
    def again(self) -> list[tuple[str, str]]:
        """The same, as fields of the question."""
        given = self.cleaned_data
        ticked = [
            (name, "on") for name in ("reopen", *(f"overlap_{kind.value}" for kind in Overlap)) if given[name]
        ]
        file = [("content", b64encode(given["data"]).decode()), ("called", file_name(given["called"]))]
        return [*file, ("name", given["name"]), *ticked]
