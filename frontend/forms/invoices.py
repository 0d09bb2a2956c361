"""Corrections, grants, payments and the close of a month, as operators type them."""

from collections.abc import Mapping
from typing import Any

from django import forms

from billing.states import NOTE_KINDS
from frontend.forms import Form, RequiredText
from frontend.forms.lease import moment_field

LINE = "line_"


class NoteForm(Form):
    """One amount field per line of the invoice, `lines`: position → words, and what is `left` of it; those left empty are not
    corrected."""

    note = forms.ChoiceField(label="Type", choices=NOTE_KINDS)
    reason = RequiredText("Enter a reason; it is printed on the note.", 500)

    def __init__(self, *args: Any, lines: Mapping[int, str], left: Mapping[int, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for position, words in lines.items():
            self.fields[f"{LINE}{position}"] = forms.CharField(
                label=f"{position}. {words}", max_length=20, required=False, help_text=left.get(position, "")
            )

    def amounts(self) -> dict[int, str]:
        return {
            int(name.removeprefix(LINE)): value.strip()
            for name, value in self.cleaned_data.items()
            if name.startswith(LINE) and value.strip()
        }


class WriteOffForm(Form):
    amount = forms.CharField(
        label="Amount", max_length=20, required=False, help_text="leave empty for the full open amount"
    )
    reason = RequiredText("Enter a reason.", 300)


class GrantForm(Form):
    amount = RequiredText("Enter an amount.", 20)
    expires_at = moment_field(
        label="Expires",
        error_messages={"required": "Enter when it expires."},
        help_text="pays for months closed before this date",
    )
    gpu_types = forms.CharField(
        label="Only for GPU types",
        max_length=1000,
        required=False,
        help_text="short names of GPU types; leave empty for all usage",
    )
    note = forms.CharField(max_length=200, required=False, help_text="shown in the account ledger")

    def types(self) -> list[str]:
        return str(self.cleaned_data["gpu_types"]).replace(",", " ").split()


class PaymentForm(Form):
    amount = RequiredText("Enter an amount.", 20)
    note = forms.CharField(max_length=200, required=False, help_text="such as the bank's reference")


class CloseForm(Form):
    accept = forms.CharField(
        label="Reason for closing anyway",
        max_length=500,
        required=False,
        help_text="recorded in the audit log and shown with the month",
    )
