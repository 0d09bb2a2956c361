"""Every way out of a workspace that we know of: what a tenant sends, and the words of who refuses it."""

from tests.providers.kubernetes.escapes.beyond import foreign_escapes
from tests.providers.kubernetes.escapes.objects import claim_escapes, object_escapes
from tests.providers.kubernetes.escapes.pods import later_escapes, pod_escapes

ALL = [*pod_escapes(), *later_escapes(), *claim_escapes(), *object_escapes(), *foreign_escapes()]
