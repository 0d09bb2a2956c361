"""allauth's forms in which somebody who is half or all the way in may guess a password or a code: each try is counted."""

from typing import Any

from allauth.account.forms import ChangePasswordForm
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm

from tenants.services import try_return, try_take


class PasswordChange(ChangePasswordForm):
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
