"""Machines that boot: Debian containers that find their user data where Nova's metadata service has it."""

from deploy.lab.guest.image import Image
from deploy.lab.guest.keeper import machine_at
from deploy.lab.guest.machine import Machine
from deploy.lab.guest.wishes import Wish, Wishes

__all__ = ["Image", "Machine", "Wish", "Wishes", "machine_at"]
