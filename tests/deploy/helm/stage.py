"""Run in the portal's own shell: a price, an organization with a project, its limits, and a token of alice. Prints the token."""

import sys
from datetime import timedelta

from billing.services import rate_set
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from quotas.resources import gpu_resource
from quotas.services import limit_set
from quotas.tasks import capacity_sync
from tenants.actors import SYSTEM
from tenants.roles import TOKEN_SCOPES
from tenants.selectors import actor_for
from tenants.services import organization_create, project_create, token_create, user_create

now = clock.now()
flavor = Flavor.objects.select_related("pool__gpu_type", "pool__site").get()
rate_set(actor=SYSTEM, flavor=flavor, meter="gpu_held", price="1.00", valid_from=now)
capacity_sync(str(flavor.pool.site_id))
alice = user_create(
    actor=SYSTEM, username="alice", email="alice@example.org", password="correct horse battery"
)
climate = organization_create(actor=SYSTEM, slug="climate", name="Climate Physics", owner=alice)
project = project_create(actor=SYSTEM, organization=climate, slug="weather-lm", name="Weather LM")
for resource in (gpu_resource(flavor.pool.gpu_type.slug), "vcpu", "memory", "storage"):
    limit_set(actor=SYSTEM, organization=climate, resource=resource, hard=1000)
    limit_set(actor=SYSTEM, project=project, resource=resource, hard=1000)
_, token = token_create(
    actor=actor_for(user=alice),
    project=project,
    name="test",
    scopes=sorted(TOKEN_SCOPES),
    expires_at=now + timedelta(days=1),
)
sys.stdout.write(f"TOKEN {token} {flavor.slug}\n")
