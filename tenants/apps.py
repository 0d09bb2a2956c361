from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    sealed = ("mfa.Authenticator.data:secret", "mfa.Authenticator.data:seed")  # tenants/adapter.py

    def ready(self) -> None:
        from allauth.account.signals import password_reset

        from tenants import services
        from tenants.services.credentials import credentials_watch

        credentials_watch()
        password_reset.connect(lambda user, **_more: services.password_reset(user), weak=False)
