"""allauth's forms in our own words. Where somebody who is half or all the way in may guess a password or a code, each try is
counted."""

from typing import Any

from allauth.account.forms import ChangePasswordForm, ResetPasswordForm, ResetPasswordKeyForm
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm

from tenants.services import try_return, try_take

NEW = "At least 12 characters, not a common password, and nothing like your name or address."
FIELDS = {
    "oldpassword": ("Current password", "Enter your current password.", ""),
    "password1": ("New password", "Enter a new password.", NEW),
    "password2": ("New password, once more", "Enter the new password once more.", ""),
    "email": ("E-mail", "Enter the address of your account.", ""),
}


class InOurWords:
    """Their labels are in title case, stand in the inputs a second time, and nothing says what is missing."""

    fields: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.label, field.error_messages["required"], field.help_text = FIELDS[name]
            field.widget.attrs.pop("placeholder", None)


class PasswordReset(InOurWords, ResetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].error_messages["invalid"] = "Enter an address such as ada@example.org."


class PasswordResetKey(InOurWords, ResetPasswordKeyForm):
    pass


class PasswordChange(InOurWords, ChangePasswordForm):
    user: Any

    def clean_oldpassword(self) -> str:
        taken = try_take(user=self.user)
        password = str(super().clean_oldpassword())
        try_return(taken)
        return password


class SecondFactor(AuthenticateForm):
    """At the sign-in."""

    def clean_code(self) -> str:
        taken = try_take(user=self.user)
        code = str(super().clean_code())
        try_return(taken)
        return code


class SecondFactorAgain(SecondFactor):
    """Where what is asked for needs to know once more who it is."""

    save = ReauthenticateForm.save
    _emit_authentication_failed = ReauthenticateForm._emit_authentication_failed
