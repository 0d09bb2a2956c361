"""A real OpenStack (Keystone, Placement, Nova, Glance, Neutron, Cinder) on loopback, with make-believe GPUs. See README.md."""

from deploy.lab.errors import LabError
from deploy.lab.openstack.lab import Lab

__all__ = ["Lab", "LabError"]
