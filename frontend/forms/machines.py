"""Ordering a machine, making it anew, and one's own keys."""

from collections.abc import Sequence
from typing import Any

from django import forms

Choices = Sequence[tuple[str, str]]


class MachineForm(forms.Form):
    name = forms.CharField(label="Name", max_length=300, error_messages={"required": "Give it a name."})
    flavor = forms.ChoiceField(
        label="Flavor",
        widget=forms.RadioSelect,
        error_messages={"required": "Choose a flavor.", "invalid_choice": "Choose one of the flavors."},
    )
    image = forms.ChoiceField(
        label="Image",
        error_messages={"required": "Choose an image.", "invalid_choice": "Choose one of the images."},
    )
    key = forms.ChoiceField(label="Key", required=False)
    cloud_init = forms.CharField(
        label="Cloud-init", required=False, widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"})
    )
    volume_gib = forms.IntegerField(
        label="Volume", required=False, error_messages={"invalid": "A whole number of GiB, please."}
    )

    def __init__(self, *args: Any, flavors: Choices, images: Choices, keys: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("flavor", flavors), ("image", images), ("key", keys)):
            field = self.fields[name]
            if isinstance(field, forms.ChoiceField):
                field.choices = list(choices)


class RebuildForm(forms.Form):
    image = forms.ChoiceField(
        label="Image",
        required=False,
        error_messages={"invalid_choice": "Choose one of the images."},
    )

    def __init__(self, *args: Any, images: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["image"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", "The image that it has"), *images]


class KeyForm(forms.Form):
    name = forms.CharField(label="Name", max_length=300, error_messages={"required": "Give it a name."})
    public_key = forms.CharField(
        label="Public key",
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        error_messages={"required": "Paste the line of your .pub file."},
    )
