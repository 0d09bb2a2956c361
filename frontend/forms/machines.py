"""Ordering and rebuilding a machine, and a person's own keys."""

from collections.abc import Sequence
from typing import Any

from django import forms

from frontend.forms import Form, RequiredText, choices_set

Choices = Sequence[tuple[str, str]]


class MachineForm(Form):
    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="Lower-case letters, digits and hyphens."
    )
    flavor = forms.ChoiceField(
        label="Flavor",
        widget=forms.RadioSelect,
        error_messages={"required": "Choose a flavor.", "invalid_choice": "Choose one of the flavors."},
    )
    image = forms.ChoiceField(
        label="Image",
        error_messages={"required": "Choose an image.", "invalid_choice": "Choose one of the images."},
    )
    key = forms.ChoiceField(
        label="Key",
        required=False,
        help_text="One of your public keys; its private key gives access to the machine.",
    )
    cloud_init = forms.CharField(
        label="Cloud-init",
        required=False,
        help_text="Starts with #cloud-config or #!. Stored encrypted until the site has it, then deleted.",
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
    )
    volume_gib = forms.IntegerField(
        label="Volume",
        required=False,
        help_text="In addition to the flavor's disk, deleted with the machine. 0 for none.",
        error_messages={"invalid": "Enter a whole number of GiB."},
    )

    def __init__(self, *args: Any, flavors: Choices, images: Choices, keys: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("flavor", flavors), ("image", images), ("key", keys)):
            choices_set(self, name, choices)


class RebuildForm(Form):
    image = forms.ChoiceField(
        label="Image",
        required=False,
        error_messages={"invalid_choice": "Choose one of the images."},
    )

    def __init__(self, *args: Any, images: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices_set(self, "image", [("", "Current image"), *images])


class KeyForm(Form):
    name = RequiredText(
        "Enter a name.", 300, label="Name", help_text="To help you recognize it, for example laptop."
    )
    public_key = RequiredText(
        "Paste the line of your .pub file.",
        20_000,
        label="Public key",
        help_text="One line; never the private key.",
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
    )
