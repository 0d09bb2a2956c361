from django.apps import AppConfig


class ClustersConfig(AppConfig):
    name = "gpuaas.clusters"
    sealed = ("clusters.Cluster.seed",)
