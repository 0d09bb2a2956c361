"""Members, tokens, and the reader's own account."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError

from frontend.forms import Form, RequiredText, choices_set
from frontend.forms.lease import moment_field
from tenants.roles import OrganizationRole, Permission, ProjectRole


class MemberForm(Form):
    user = RequiredText(
        "Enter the exact user name or e-mail address.",
        254,
        label="User name or e-mail",
        help_text="Exactly as they sign in. People without an account need one first.",
    )
    role = forms.ChoiceField(choices=ProjectRole, initial=ProjectRole.MEMBER)


class OrganizationMemberForm(MemberForm):
    role = forms.ChoiceField(choices=OrganizationRole, initial=OrganizationRole.BILLING)


class ProjectForm(Form):
    slug = forms.CharField(
        label="Short name",
        max_length=40,
        help_text="Lower-case letters, digits and hyphens. It is part of addresses and cannot be changed.",
    )
    name = forms.CharField(max_length=100)


class TokenForm(Form):
    name = RequiredText("Enter a name.", 100, help_text="To help you recognize it.")
    expires_at = moment_field(
        label="Valid until",
        help_text="At most one year, in your time zone.",
        error_messages={"required": "Choose a date and time."},
    )
    scopes = forms.MultipleChoiceField(
        label="Scopes",
        help_text="Choose only the scopes that it needs.",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one scope."},
    )

    def __init__(self, *args: Any, offered: list[Permission], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices_set(self, "scopes", [(scope.value, scope.label) for scope in offered])


class AccountForm(Form):
    time_zone = forms.CharField(
        label="Time zone", max_length=64, help_text="All times are shown in this time zone."
    )

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"])
        if name not in available_timezones():
            raise ValidationError("Unknown time zone. Use a name such as Europe/Berlin.")
        return name
