"""Corrections, grants, payments and the close of a month, as operators type them."""

from collections.abc import Mapping

from django import forms

from billing.states import InvoiceKind
from frontend.forms.lease import moment_field

NOTES = [(kind.value, kind.label) for kind in InvoiceKind if kind != InvoiceKind.INVOICE]
LINE = "line_"


class NoteForm(forms.Form):
    """One amount field per line of the invoice, `lines`: position → words; those left empty are not corrected."""

    note = forms.ChoiceField(label="What", choices=NOTES)
    reason = forms.CharField(max_length=500, error_messages={"required": "Say why; it stands on the note."})

    def __init__(self, *args: object, lines: Mapping[int, str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through as they are
        for position, words in lines.items():
            self.fields[f"{LINE}{position}"] = forms.CharField(
                label=f"{position}. {words}", max_length=20, required=False
            )

    def amounts(self) -> dict[int, str]:
        return {
            int(name.removeprefix(LINE)): value.strip()
            for name, value in self.cleaned_data.items()
            if name.startswith(LINE) and value.strip()
        }


class WriteOffForm(forms.Form):
    amount = forms.CharField(label="Amount", max_length=20, required=False)
    reason = forms.CharField(max_length=300, error_messages={"required": "Say why."})


class GrantForm(forms.Form):
    amount = forms.CharField(max_length=20, error_messages={"required": "Write an amount."})
    expires_at = moment_field(label="Expires", error_messages={"required": "Say when it expires."})
    gpu_types = forms.CharField(label="Pays only for", max_length=1000, required=False)
    note = forms.CharField(max_length=200, required=False)

    def types(self) -> list[str]:
        return str(self.cleaned_data["gpu_types"]).replace(",", " ").split()


class PaymentForm(forms.Form):
    amount = forms.CharField(max_length=20, error_messages={"required": "Write an amount."})
    note = forms.CharField(max_length=200, required=False)


class CloseForm(forms.Form):
    accept = forms.CharField(label="Close in spite of it, because", max_length=500, required=False)
