from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "quotas"

    def ready(self) -> None:
        from gpuaas.catalog import site
        from quotas.gpus import gpus_held
        from quotas.selectors import holders_at

        site.HOLDERS.append(holders_at)
        site.HELD.append(gpus_held)
