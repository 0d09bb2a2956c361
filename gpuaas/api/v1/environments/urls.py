"""Addresses of environments."""

from gpuaas.api.v1.environments import files, platform, views
from gpuaas.api.v1.paths import PROJECT, tagged

ENVIRONMENT = f"{PROJECT}/environments/<uuid:environment>"
KIND = "platform/environment-kinds/<name_slug:kind>"

environment_urls = tagged(
    "environments",
    (f"{PROJECT}/environment-kinds", views.EnvironmentKindsView, "environment-kinds"),
    (f"{PROJECT}/environments", views.EnvironmentsView, "environments"),
    (ENVIRONMENT, views.EnvironmentDetailView, "environment"),
    (f"{ENVIRONMENT}/start", views.EnvironmentStartView, "environment-start"),
    (f"{ENVIRONMENT}/stop", views.EnvironmentStopView, "environment-stop"),
    (f"{ENVIRONMENT}/restart", views.EnvironmentRestartView, "environment-restart"),
    (f"{ENVIRONMENT}/keep", views.EnvironmentKeepView, "environment-keep"),
    (f"{ENVIRONMENT}/clone", views.EnvironmentCloneView, "environment-clone"),
    (f"{ENVIRONMENT}/keys", views.EnvironmentKeysView, "environment-keys"),
    (f"{ENVIRONMENT}/keys/<uuid:door_key>", views.EnvironmentKeyView, "environment-key"),
    (f"{ENVIRONMENT}/operations", views.EnvironmentOperationsView, "environment-operations"),
    (f"{ENVIRONMENT}/files", files.FilesView, "environment-files"),
    (f"{ENVIRONMENT}/files/content", files.FileContentView, "environment-file-content"),
    (f"{ENVIRONMENT}/tokens", views.EnvironmentTokensView, "environment-tokens"),
    (f"{ENVIRONMENT}/log", views.EnvironmentLogView, "environment-log"),
)

platform_environment_urls = tagged(
    "platform",
    ("platform/environment-kinds", platform.PlatformKindsView, "platform-environment-kinds"),
    (KIND, platform.PlatformKindView, "platform-environment-kind"),
    (f"{KIND}/versions", platform.PlatformKindVersionsView, "platform-environment-kind-versions"),
)
