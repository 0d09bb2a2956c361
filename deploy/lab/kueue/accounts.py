"""The accounts of controllers, and what their webhooks answer with.

A controller is nobody's member and no portal: the guards of workspaces judge what it writes, as at a real site.
"""

from pathlib import Path

from deploy.lab.files import write_private
from deploy.lab.kubernetes import Lab, pki


def account(cluster: Lab, name: str, namespace: str) -> str:
    """The kubeconfig of its service account, by a certificate, with the rights of an administrator."""
    keys, client = cluster.pki, cluster.client()
    user = f"system:serviceaccount:{namespace}:{name}-controller-manager"
    if not (keys / f"{name}.key").exists():
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        pki.client_certificate(keys, name, "".join(f"/O={group}" for group in groups) + f"/CN={user}")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    client.apply("/api/v1/namespaces", space)
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    client.apply(f"/apis/{group}/v1/clusterrolebindings", binding)
    return pki.kubeconfig(keys, name, cluster.server)


def certificates(cluster: Lab, state_dir: Path) -> Path:
    """The folder of them."""
    folder = state_dir / "certificates"
    for file, source in (("tls.crt", "apiserver.crt"), ("tls.key", "apiserver.key")):
        write_private(folder / file, (cluster.pki / source).read_text())
    return folder
