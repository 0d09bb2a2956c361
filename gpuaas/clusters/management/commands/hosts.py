"""`manage.py hosts SITE …`: the hosts of a bare-metal site."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.catalog.models import Site
from gpuaas.clusters.services.hosts import VERBS, host_do, hosts_of_site, hosts_put
from gpuaas.core.errors import GpuaasError, Invalid
from gpuaas.core.rows import one_or_none
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = (
        "Manage the hosts of a bare-metal site: put FILE, list, take-out, put-back, cleaned, rebind, remove."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("site", help="slug of the site")
        parser.add_argument("verb", choices=["put", "list", "take-out", *VERBS])
        parser.add_argument("what", nargs="?", default="", help="a file (for put), or the name of a host")
        parser.add_argument("--reason", default="", help="reason for take-out")

    def handle(self, *_args: Any, **options: Any) -> None:
        site = one_or_none(Site.objects.filter(slug=options["site"]))
        if site is None:
            raise CommandError(f"there is no site {options['site']!r}")
        try:
            self.stdout.write(_done(site, options["verb"], options["what"], options["reason"]))
        except Invalid as error:
            messages = [f"{place}: {text}" for place, texts in error.fields.items() for text in texts]
            raise CommandError("\n".join(messages) or error.message) from error
        except GpuaasError as error:
            raise CommandError(error.message) from error


def _done(site: Site, verb: str, what: str, reason: str) -> str:
    if verb == "list":
        return _table(site)
    if not what:
        raise CommandError("name the file" if verb == "put" else "name the host")
    if verb == "put":
        hosts = _read(what)
        new = hosts_put(actor=SYSTEM, site=site, described=hosts)
        return f"{len(hosts)} hosts, {new} of them new"
    host_do(actor=SYSTEM, site=site, name=what, verb=verb, reason=reason)
    return f"{what}: {verb}"


def _read(path: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read as JSON: {error}") from error
    rows: list[dict[str, Any]] = document if isinstance(document, list) else [document]
    return rows


def _table(site: Site) -> str:
    lines = []
    for host in hosts_of_site(actor=SYSTEM, site=site):
        holder = f"{host.cluster_id} {host.slot}" if host.cluster_id else ""
        gpus = f"{host.gpus} × {host.product}" if host.gpus else "control plane"
        lines.append("  ".join(filter(None, [host.name, host.state, gpus, holder, host.reason])))
    return "\n".join(lines) or "no hosts yet"
