"""What the pages of the portal say meanwhile, as alice reads them."""

from django.test import Client
from django.urls import reverse

from gpuaas.clusters.models import Cluster
from tenants.models import User
from tests.frontend.markup import words


def page_of(cluster: Cluster, *, name: str = "cluster") -> str:
    """Of the cluster, or the one of that name below it."""
    client = Client()
    client.force_login(User.objects.get(username="alice"))
    answer = client.get(reverse(f"frontend:{name}", args=[cluster.project.slug, cluster.pk]))
    assert answer.status_code == 200
    return words(answer)
