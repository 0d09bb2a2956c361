"""Add-ons of a Kubernetes cluster: manifests that k3s on the first head applies from its directory."""

from collections.abc import Mapping

from gpuaas.providers.base import ClusterKind, ClusterSpec

GPU_OPERATOR = """\
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata:
  name: gpu-operator
  namespace: kube-system
spec:
  repo: https://helm.ngc.nvidia.com/nvidia
  chart: gpu-operator
  targetNamespace: gpu-operator
  createNamespace: true
  valuesContent: |-
    toolkit:
      env:
        - name: CONTAINERD_SOCKET
          value: /run/k3s/containerd/containerd.sock
"""
KNOWN: Mapping[str, str] = {"gpu-operator": GPU_OPERATOR}


def manifests(spec: ClusterSpec) -> dict[str, str]:
    """By add-on; the template's manifests take precedence over ours."""
    if spec.kind is not ClusterKind.KUBERNETES:
        return {}
    given: Mapping[str, str] = {**KNOWN, **(spec.settings.get("manifests") or {})}
    return {name: given[name] for name in spec.addons if name in given}


def unknown(spec: ClusterSpec) -> list[str]:
    return [name for name in spec.addons if name not in manifests(spec)]
