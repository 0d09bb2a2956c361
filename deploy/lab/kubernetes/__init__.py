"""A real Kubernetes control plane on loopback, with make-believe GPU nodes, for tests and demonstrations."""

from deploy.lab.errors import LabError
from deploy.lab.kubernetes.lab import Lab
from deploy.lab.kubernetes.settings import existing_kubeconfig

__all__ = ["Lab", "LabError", "existing_kubeconfig"]
