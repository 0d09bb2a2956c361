"""helm, from its Go module: renders, installs and upgrades the chart in deploy/helm for tests."""

from deploy.lab.helm.programs import Programs

__all__ = ["Programs"]
