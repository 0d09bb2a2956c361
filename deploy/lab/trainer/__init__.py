"""JobSet's and Trainer's released controllers beside Kueue, for tests of workspaces at a site that serves them."""

from deploy.lab.errors import LabError
from deploy.lab.trainer.lab import Lab

__all__ = ["Lab", "LabError"]
