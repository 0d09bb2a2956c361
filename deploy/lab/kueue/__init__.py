"""Kueue's released controller on a control plane of its own, for tests of workspaces at a site that has it."""

from deploy.lab.errors import LabError
from deploy.lab.kueue.lab import Lab

__all__ = ["Lab", "LabError"]
