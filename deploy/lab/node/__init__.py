"""One node that is real: a kubelet, a container runtime and pods that run, beside the lab's control plane."""

from deploy.lab.errors import LabError
from deploy.lab.node.lab import Lab, cannot_run

__all__ = ["Lab", "LabError", "cannot_run"]
