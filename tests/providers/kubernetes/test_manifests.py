"""What is put into a workspace's namespace, without a site."""

from gpuaas.providers.kubeapi import manifests
from tests.providers.kubernetes.conftest import make_spec


def test_pod_security_refuses_what_harms_others_and_warns_nobody_on_each_pod() -> None:
    labels = manifests.namespace(make_spec())["metadata"]["labels"]
    levels = {key.rpartition("/")[2]: level for key, level in labels.items() if key.startswith("pod-sec")}

    assert levels == {"enforce": "baseline", "audit": "restricted"}


def test_each_storage_class_has_a_limit_of_its_own() -> None:
    spec = make_spec(
        storage_gib=30, storage_classes={"standard": 10, "fast": 20}, closed_classes=("archive",)
    )
    hard = manifests.quota(spec, {})["spec"]["hard"]
    suffix = ".storageclass.storage.k8s.io/requests.storage"
    found = {key.removesuffix(suffix): amount for key, amount in hard.items() if key.endswith(suffix)}

    assert found == {"standard": "10Gi", "fast": "20Gi", "archive": "0"}
    assert hard["requests.storage"] == "30Gi"
    assert (
        manifests.namespace(spec)["metadata"]["annotations"]["gpuaas.io/storage-classes"] == "fast,standard"
    )


def test_a_site_without_storage_classes_has_one_amount() -> None:
    assert not [key for key in manifests.quota(make_spec(), {})["spec"]["hard"] if "storageclass" in key]
    assert "gpuaas.io/storage-classes" not in manifests.namespace(make_spec())["metadata"]["annotations"]


def test_only_the_policy_of_environments_lets_anybody_in_to_them() -> None:
    """Policies add up: one for all pods, such as that of a site's routers, would open environments to whoever makes a Route."""
    openings = manifests.Openings(routers=(("policy-group.network.openshift.io/ingress", ""),))
    policies = {
        each["metadata"]["name"]: each["spec"] for each in manifests.network_policies(make_spec(), openings)
    }
    assert "gpuaas-routers" in policies
    absent = [{"key": "gpuaas.io/environment", "operator": "DoesNotExist"}]
    for name, spec in policies.items():
        if spec.get("ingress"):
            assert spec["podSelector"] == {"matchExpressions": absent}, name
