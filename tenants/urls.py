"""The addresses of the sign-in, below /accounts/. Of allauth's those that are wanted: nobody adds or changes an address of mail
or connects another account, as an address is what the provider's OpenID Connect enters an account by."""

from allauth.account import views as account
from allauth.socialaccount import views as social
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from tenants.views import PasswordReset

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="account_login")),
    path("login/", account.login, name="account_login"),
    path("logout/", account.logout, name="account_logout"),
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("signup/", account.signup, name="account_signup"),
    path("reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("password/change/", account.password_change, name="account_change_password"),
    path("password/set/", account.password_set, name="account_set_password"),
    path("password/reset/", PasswordReset.as_view(), name="account_reset_password"),
    path("password/reset/done/", account.password_reset_done, name="account_reset_password_done"),
    path(
        "password/reset/key/done/",
        account.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        account.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("2fa/", include("allauth.mfa.urls")),
    path("3rdparty/login/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("3rdparty/login/error/", social.login_error, name="socialaccount_login_error"),
    path("", include("allauth.socialaccount.providers.openid_connect.urls")),
]
