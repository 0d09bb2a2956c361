from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    sealed = ("mfa.Authenticator.data:secret", "mfa.Authenticator.data:seed")  # tenants/adapter.py
