"""`manage.py site_attach`: attach a site, or give it new credentials, and inspect it at once."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from billing.services.offers import pool_offer
from gpuaas.catalog.models import GpuPool, Site
from gpuaas.catalog.selectors import site_checks
from gpuaas.catalog.services import site_create, site_look, site_preflight_look, site_update
from gpuaas.core.conditions import Status, conditions_read
from gpuaas.core.declaration import NOTHING
from gpuaas.core.errors import GpuaasError, Invalid
from gpuaas.core.schema_form import FieldKind, FormField, document_of, fields_of
from gpuaas.providers.registry import driver_names, site_kind, site_kinds
from tenants.actors import SYSTEM


def declared_credentials() -> dict[str, FormField]:
    """Arguments of all drivers by name; if two declare the same name, the text of the first is used."""
    fields: dict[str, FormField] = {}
    for kind in site_kinds():
        fields = {leaf.name: leaf for leaf in fields_of(kind.credentials)} | fields
    return fields


def is_from_file(leaf: FormField) -> bool:
    """Values that are long, or should not be visible in the list of processes."""
    return leaf.secret or leaf.kind is FieldKind.DOCUMENT


def _value(leaf: FormField, text: str) -> str:
    if not is_from_file(leaf):
        return text
    try:
        read = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{text} cannot be read") from error
    return read if leaf.kind is FieldKind.DOCUMENT else read.strip()


def _options(driver: str, given: list[str]) -> dict[str, Any]:
    """`name=value` as a form would post it; for a list or a map, each repetition is one entry. Raises Invalid."""
    posted: dict[str, str] = {}
    schema = site_kind(driver).options or NOTHING
    known = {leaf.name for leaf in fields_of(schema)}
    for each in given:
        name, _, value = each.partition("=")
        if name not in known:
            raise CommandError(f"the driver {driver} declares no option {name!r}")
        posted[name] = f"{posted[name]}\n{value}" if name in posted else value
    return {name: value for name, value in document_of(schema, posted).items() if value != {}}


class Command(BaseCommand):
    help = (
        "Attach a site, or update the site with the same slug; --publish sells one default flavor of "
        "each GPU type found that has a price."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--slug", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--driver", default=site_kinds()[0].name, choices=driver_names())
        parser.add_argument("--endpoint", default="")
        parser.add_argument("--publish", action="store_true")
        parser.add_argument(
            "--without-price",
            action="store_true",
            help="publish also what has no price; its usage is not charged",
        )
        parser.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="an option of the driver; may be repeated",
        )
        group = parser.add_argument_group("credentials, as the driver declares them")
        for name, leaf in declared_credentials().items():
            what = f"a file with the {leaf.label}" if is_from_file(leaf) else leaf.label
            group.add_argument(
                f"--{name.replace('_', '-')}",
                dest=f"credential.{name}",
                default="",
                metavar="FILE" if is_from_file(leaf) else "TEXT",
                help=f"{what}: {leaf.help}".removesuffix(": ").replace("%", "%%"),
            )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            site = self._attached(options)
        except GpuaasError as error:
            raise CommandError(error.message) from error
        answered = site_look(site.pk)
        site.refresh_from_db()
        if not answered:
            bad = [row.message for row in conditions_read(site.conditions) if row.status != Status.TRUE]
            raise CommandError(f"{site.slug} is attached but does not answer: {' '.join(bad)}")
        self.stdout.write(f"{site.slug}: {site.server_version}, answered in {site.answer_ms} ms")
        unpriced = []
        for pool in GpuPool.objects.filter(site=site, capacity__gt=0).select_related("gpu_type", "site"):
            sold = "not published"
            try:
                if options["publish"]:
                    sold = pool_offer(actor=SYSTEM, pool=pool, without_price=options["without_price"]).slug
            except Invalid:
                unpriced.append(pool.gpu_type.slug)
            self.stdout.write(
                f"  {pool.gpu_type.slug}: {pool.unallocated} of {pool.capacity} not allocated ({sold})"
            )
        self._checks(site)
        if unpriced:
            raise CommandError(
                f"{site.slug} is attached. {', '.join(unpriced)} {'is' if len(unpriced) == 1 else 'are'} not published "
                "for want of a price: what is held would not be charged, and the month could not be closed. Sell it with "
                "its price on the page Flavors, or repeat this with --without-price."
            )

    def _checks(self, site: Site) -> None:
        """Checks that failed or are unknown, with their remedies."""
        if not site_preflight_look(site.pk):
            self.stdout.write("The checks of the site cannot run now; a worker will run them.")
            return
        site.refresh_from_db()
        rows = site_checks(site=site)
        for row in rows:
            if row.status != Status.TRUE:
                self.stdout.write(
                    f"  {row.type}: {row.status} ({row.reason}). {row.message} {row.remedy}".rstrip()
                )
        well = sum(row.status == Status.TRUE for row in rows)
        self.stdout.write(
            f"{well} of {len(rows)} checks passed; the site is {'fit' if site.fit else 'not fit'} to be sold."
        )

    def _attached(self, options: dict[str, Any]) -> Site:
        leaves = declared_credentials()
        given = {name: options.get(f"credential.{name}") for name in leaves}
        credentials = {name: _value(leaves[name], text) for name, text in given.items() if text}
        site = Site.objects.filter(slug=options["slug"]).first()
        chosen = _options(site.driver if site else options["driver"], options["option"])
        if site is None:
            return site_create(
                actor=SYSTEM,
                slug=options["slug"],
                name=options["name"] or options["slug"],
                driver=options["driver"],
                endpoint=options["endpoint"],
                credentials=credentials,
                options=chosen,
            )
        changes: dict[str, Any] = {key: options[key] for key in ("name", "endpoint") if options[key]}
        if chosen:
            changes["options"] = {**site.options, **chosen}
        return site_update(actor=SYSTEM, site=site, credentials=credentials or None, enabled=True, **changes)
