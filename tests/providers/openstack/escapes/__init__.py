"""The table of ways out of a workspace by one request each. Longer ways are in test_ways_out.py."""

from tests.providers.openstack.escapes import machines, people, things

ALL = [*machines.ALL, *people.ALL, *things.ALL]
ORDINARY = things.ORDINARY
