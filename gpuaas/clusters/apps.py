from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "gpuaas.clusters"
    sealed = ("clusters.Cluster.seed",)

    def ready(self) -> None:
        from gpuaas.catalog import site
        from gpuaas.clusters.selectors import clusters_known

        site.KNOWN.append(clusters_known)
