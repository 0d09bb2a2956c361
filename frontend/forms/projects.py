"""Members, tokens, and the reader's own account."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError

from frontend.forms.lease import moment_field
from tenants.roles import OrganizationRole, Permission, ProjectRole


class MemberForm(forms.Form):
    user = forms.CharField(
        label="User name or e-mail",
        max_length=254,
        help_text="Exactly as they sign in. People who have no account yet need one first.",
        error_messages={"required": "Write the exact user name or e-mail address."},
    )
    role = forms.ChoiceField(choices=ProjectRole, initial=ProjectRole.MEMBER)


class OrganizationMemberForm(MemberForm):
    role = forms.ChoiceField(choices=OrganizationRole, initial=OrganizationRole.BILLING)


class ProjectForm(forms.Form):
    slug = forms.CharField(
        label="Short name",
        max_length=40,
        help_text="Lower-case letters, digits and hyphens. It stands in addresses and cannot change.",
    )
    name = forms.CharField(max_length=100)


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100, help_text="So that you know it again.", error_messages={"required": "Give it a name."}
    )
    expires_at = moment_field(label="Valid until", error_messages={"required": "Choose a day and hour."})
    scopes = forms.MultipleChoiceField(
        label="It may",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one thing that it may do."},
    )

    def __init__(self, *args: Any, offered: list[Permission], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scopes = self.fields["scopes"]
        if isinstance(scopes, forms.MultipleChoiceField):
            scopes.choices = [(scope.value, scope.label) for scope in offered]


class AccountForm(forms.Form):
    time_zone = forms.CharField(label="Time zone", max_length=64, help_text="All times are shown in it.")

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"])
        if name not in available_timezones():
            raise ValidationError("There is no such time zone; write it as Europe/Berlin.")
        return name
