"""Operators' actions on the hosts of a bare-metal site: written to its inventory, and audited."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from gpuaas.catalog.models import Site
from gpuaas.core.errors import Invalid
from gpuaas.core.queue import poke
from gpuaas.core.rows import first_of
from gpuaas.providers.baremetal import facts, hosts
from gpuaas.providers.baremetal.models import Host, HostState
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

__all__ = ["DRIVER", "VERBS", "Host", "HostState", "host_do", "host_get", "hosts_of_site", "hosts_put"]

DRIVER = "bare-metal"
VERBS: dict[str, Callable[..., None]] = {
    "put-back": hosts.host_put_back,
    "cleaned": hosts.host_cleaned,
    "rebind": hosts.host_rebind,
    "remove": facts.host_remove,
}


@transaction.atomic
def hosts_put(*, actor: Actor, site: Site, described: Sequence[Mapping[str, Any]]) -> int:
    """All of them or none; returns how many are new. Raises Invalid with the place of the error."""
    _require(actor, site)
    new = 0
    for number, one in enumerate(described):
        if not isinstance(one, Mapping):
            raise Invalid.field(str(number), "a host must be a JSON object")
        _storable(number, one)
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
    """take-out (with a reason), put-back, cleaned, rebind or remove. Raises Conflict if its state forbids it."""
    _require(actor, site)
    host_get(actor=actor, site=site, name=name)
    if verb == "take-out":
        if not reason.strip():
            raise Invalid.field("reason", "give a reason: it is shown to people who look for the host")
        hosts.host_take_out(site_id=site.pk, name=name, reason=reason.strip()[:300])
    elif verb in VERBS:
        VERBS[verb](site_id=site.pk, name=name)
    else:
        raise Invalid.field("verb", f"one of take-out, {', '.join(VERBS)}")
    after = {"host": name, **({"reason": reason.strip()[:300]} if reason else {})}
    audit_record(actor=actor, action=f"host.{verb.replace('-', '_')}", target=site, after=after)
    poke("catalog.probe", str(site.pk))


def hosts_of_site(*, actor: Actor, site: Site, state: str = "", search: str = "") -> QuerySet[Host]:
    """Hosts with their clusters, by name. `search`: part of the name or of the GPUs' product."""
    platform_require(actor=actor)
    rows = Host.objects.filter(site_id=site.pk).order_by("name")
    if state:
        rows = rows.filter(state=state)
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(product__icontains=search))
    return rows


def host_get(*, actor: Actor, site: Site, name: str) -> Host:
    return first_of(hosts_of_site(actor=actor, site=site).filter(name=name), "host at this site")


def _storable(number: int, one: Mapping[str, Any]) -> None:
    """JSON can contain what a database cannot store: NUL characters, lone surrogates."""
    try:
        text = json.dumps(one, ensure_ascii=False)
        text.encode()
    except (UnicodeEncodeError, RecursionError):
        text = "\\u0000"
    if "\\u0000" in text:
        raise Invalid.field(str(number), "NUL characters and lone surrogates are not allowed")


def _require(actor: Actor, site: Site) -> None:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if site.driver != DRIVER:
        raise Invalid.field("site", f"{site.slug} has no hosts of its own: its driver is {site.driver}")
