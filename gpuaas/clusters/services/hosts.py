"""What operators do to the hosts of a site of bare metal: written to its inventory, and audited."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Invalid
from gpuaas.core.queue import poke
from gpuaas.providers.baremetal import facts, hosts
from gpuaas.providers.baremetal.models import Host
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

DRIVER = "bare-metal"
VERBS: dict[str, Callable[..., None]] = {
    "put-back": hosts.host_put_back,
    "cleaned": hosts.host_cleaned,
    "rebind": hosts.host_rebind,
    "remove": facts.host_remove,
}


@transaction.atomic
def hosts_put(*, actor: Actor, site: Site, described: Sequence[Mapping[str, Any]]) -> int:
    """All of them or none; how many are new. Raises Invalid with the place of what is wrong."""
    _require(actor, site)
    new = 0
    for number, one in enumerate(described):
        if not isinstance(one, Mapping):
            raise Invalid.field(str(number), "a host is a JSON object")
        try:
            _, made = facts.host_put(site_id=site.pk, facts=one)
        except Invalid as error:
            places = {f"{number}.{field}": texts for field, texts in error.fields.items()}
            raise Invalid(error.message, fields=places) from error
        new += made
    audit_record(
        actor=actor, action="host.put", target=site, after={"hosts": [one["name"] for one in described]}
    )
    poke("catalog.probe", str(site.pk))
    return new


@transaction.atomic
def host_do(*, actor: Actor, site: Site, name: str, verb: str, reason: str = "") -> None:
    """take-out (with a reason), put-back, cleaned, rebind or remove. Raises Conflict where its state forbids it."""
    _require(actor, site)
    if verb == "take-out":
        if not reason.strip():
            raise Invalid.field("reason", "say why: it is shown to whoever wonders where the host is")
        hosts.host_take_out(site_id=site.pk, name=name, reason=reason.strip()[:300])
    elif verb in VERBS:
        VERBS[verb](site_id=site.pk, name=name)
    else:
        raise Invalid.field("verb", f"one of take-out, {', '.join(VERBS)}")
    after = {"host": name, **({"reason": reason.strip()[:300]} if reason else {})}
    audit_record(actor=actor, action=f"host.{verb.replace('-', '_')}", target=site, after=after)
    poke("catalog.probe", str(site.pk))


def hosts_of_site(*, actor: Actor, site: Site) -> list[Host]:
    """Who holds what."""
    platform_require(actor=actor)
    return list(Host.objects.filter(site_id=site.pk))


def _require(actor: Actor, site: Site) -> None:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if site.driver != DRIVER:
        raise Invalid.field("site", f"{site.slug} has no hosts of its own: its driver is {site.driver}")
