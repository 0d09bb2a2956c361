"""Cluster API's released controllers on loopback, and clusters that exist in their memory, for tests and demonstrations."""

from deploy.lab.cluster_api.lab import Lab
from deploy.lab.errors import LabError

__all__ = ["Lab", "LabError"]
