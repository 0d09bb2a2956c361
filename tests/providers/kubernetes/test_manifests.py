"""What is put into a workspace's namespace, without a site."""

from gpuaas.providers.kubeapi import manifests
from tests.providers.kubernetes.conftest import make_spec


def test_pod_security_refuses_what_harms_others_and_warns_nobody_on_each_pod() -> None:
    labels = manifests.namespace(make_spec())["metadata"]["labels"]
    levels = {key.rpartition("/")[2]: level for key, level in labels.items() if key.startswith("pod-sec")}

    assert levels == {"enforce": "baseline", "audit": "restricted"}
