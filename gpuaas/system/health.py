"""Which part of the portal does not work, in words: database, broker, channels, processes, clocks, background work,
metering, sites.

Each part is asked itself, with a short limit; nothing here calls a site, whose state its own probe has written.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error
from kombu import Connection

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.probe import AUTHORIZED
from gpuaas.core import clock
from gpuaas.core.models import Process, ProcessKind
from gpuaas.lifecycle.visits import REACHABLE
from gpuaas.metering.health import PROOF_LATE
from gpuaas.metering.selectors import sites_metered
from gpuaas.system.work import work_list

SKEW_SECONDS = 1.0  # of each host, so that two of them never differ by more than 2 (decision 0067)
WORK_LATE = timedelta(seconds=60)  # the sweeps that find lost work run every few seconds
BROKER_SECONDS = 2
NAMED = 5


@dataclass(frozen=True)
class Part:
    """`message` is a sentence; `remedy` says what an operator can do, and is empty while the part works."""

    key: str
    title: str
    works: bool
    message: str
    remedy: str = ""


def parts(*, now: datetime | None = None) -> list[Part]:
    """Every part. If the database does not answer, the parts known only from it are left out."""
    moment = now or clock.now()
    database = database_part()
    found = [database, broker_part(), channels_part()]
    if database.works:
        running = list(Process.objects.all())
        found += [processes_part(running, moment), clocks_part(running, moment)]
        found += [work_part(moment), metering_part(moment), sites_part()]
    return found


def ready() -> Part:
    """Whether this process can answer requests: the database answers and has the tables of this release."""
    return database_part()


def database_part() -> Part:
    try:
        missing = migrations_missing()
    except Error as error:
        return _sick(
            "database",
            "Database",
            f"PostgreSQL does not answer ({type(error).__name__}).",
            "Check the server, GPUAAS_DATABASE_URL and the network between them.",
        )
    if missing:
        return _sick(
            "database",
            "Database",
            f"{_count(missing, 'migration is', 'migrations are')} not applied yet.",
            "Run `gpuaas-portal migrate` of this release.",
        )
    return Part(
        "database", "Database", works=True, message="PostgreSQL answers and has the tables of this release."
    )


def migrations_missing() -> int:
    """How many migrations of this release the database lacks; asked until there are none, which is then remembered."""
    if connection.settings_dict["NAME"] in _migrated:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return 0
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not missing:
        _migrated.add(connection.settings_dict["NAME"])
    return missing


_migrated: set[str] = set()


def broker_connection() -> Connection:
    """To the broker, which then is asked for BROKER_SECONDS at most."""
    options = {"socket_connect_timeout": BROKER_SECONDS, "socket_timeout": BROKER_SECONDS, "max_retries": 0}
    return Connection(settings.CELERY_BROKER_URL, connect_timeout=BROKER_SECONDS, transport_options=options)


def broker_part() -> Part:
    """Without the broker nothing is lost: the sweeps find the work later, as soon as it is back."""
    try:
        with broker_connection() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
    except Exception as error:  # noqa: BLE001  each transport raises errors of its own
        return _sick(
            "broker",
            "Broker",
            f"The broker does not answer ({type(error).__name__}); background work waits.",
            "Check the server, GPUAAS_BROKER_URL and the network between them.",
        )
    return Part("broker", "Broker", works=True, message="The broker answers.")


def channels_part() -> Part:
    """Whether what is sent on the channel layer arrives. Without it pages do not follow changes by themselves."""
    try:
        async_to_sync(_echo)()
    except Exception as error:  # noqa: BLE001  each layer raises errors of its own
        return _sick(
            "channels",
            "Live updates",
            f"The Redis for live updates does not answer ({type(error).__name__}); pages are current when loaded.",
            "Check the server, GPUAAS_CHANNELS_URL and the network between them.",
        )
    return Part("channels", "Live updates", works=True, message="What is sent to pages arrives.")


async def _echo() -> None:
    layer = get_channel_layer()
    if layer is None:
        raise ImproperlyConfigured("no channel layer is set")
    async with asyncio.timeout(BROKER_SECONDS):
        name = await layer.new_channel()
        await layer.send(name, {"type": "health.echo"})
        await layer.receive(name)


def processes_part(rows: Sequence[Process], now: datetime) -> Part:
    """Sick if no process of a kind is alive. Those that were killed are named for a day."""
    seen = Counter[str]()
    silent = []
    for row in rows:
        if row.is_alive(now):
            seen[row.kind] += 1
        else:
            silent.append(row)
    missing = [kind.label.lower() for kind in ProcessKind.wanted() if not seen[kind]]
    if missing:
        return _sick(
            "processes",
            "Processes",
            f"No process of this kind is running: {', '.join(missing)}.",
            "Start it; its log says why it ended.",
        )
    running = ", ".join(f"{kind.label.lower()} ({seen[kind]})" for kind in ProcessKind.wanted())
    ended = f" Ended without a word: {_names([str(row) for row in silent])}." if silent else ""
    return Part("processes", "Processes", works=True, message=f"Running: {running}.{ended}")


def clocks_part(rows: Sequence[Process], now: datetime) -> Part:
    """Sick if a host's clock differs from the database's by more than a second: the claims that one host writes are read
    by the others, and last ALIVE_SECONDS."""
    apart = {row.host: row.skew_seconds for row in rows if row.is_alive(now) and skewed(row)}
    if apart:
        differing = [f"{host} by {abs(skew or 0):.1f} seconds" for host, skew in apart.items()]
        return _sick(
            "clocks",
            "Clocks",
            f"The clock differs from the database's on {_count(len(differing), 'host', 'hosts')}: {_names(differing)}.",
            "Set these clocks, or the database's, by a time server: work would be taken over too early or too late.",
        )
    return Part(
        "clocks", "Clocks", works=True, message="No clock differs from the database's by more than a second."
    )


def skewed(row: Process) -> bool:
    return row.skew_seconds is not None and abs(row.skew_seconds) > SKEW_SECONDS


def work_part(now: datetime) -> Part:
    """Sick if something that is due has waited for a worker for more than a minute."""
    waits = [(row.oldest, row.kind) for row in work_list(now) if row.oldest is not None]
    since, name = min(waits, default=(now, ""))
    if since <= now - WORK_LATE:
        return _sick(
            "work",
            "Background work",
            f"Background work ({name}) has waited {int((now - since).total_seconds())} seconds for a worker.",
            "Check that workers run and are not all busy with a slow site; start more of them if they are.",
        )
    return Part(
        "work", "Background work", works=True, message="Nothing due has waited for more than a minute."
    )


def metering_part(now: datetime) -> Part:
    late = [
        site.slug
        for site in sites_metered().select_related("meter")
        if site.reached_at is not None and not _heard(site, now)
    ]
    if late:
        return _sick(
            "metering",
            "Metering",
            f"The meter has not heard for minutes from {_count(len(late), 'site', 'sites')}: {_names(late)}.",
            "Check that the meter runs and that the site answers; it then reads the usage since that time.",
        )
    return Part("metering", "Metering", works=True, message="The meter hears from every site.")


def _heard(site: Site, now: datetime) -> bool:
    meter = getattr(site, "meter", None)
    return meter is not None and meter.last_proof_at is not None and now - meter.last_proof_at <= PROOF_LATE


def sites_part() -> Part:
    rows = Site.objects.filter(enabled=True, removed_at__isnull=True)
    known = list(rows.values_list("slug", "conditions"))
    away, refused = (
        [slug for slug, conditions in known if conditions.get(kind, {}).get("status") == "False"]
        for kind in (REACHABLE, AUTHORIZED)
    )
    found = [f"{_count(len(away), 'site does', 'sites do')} not answer: {_names(away)}."] if away else []
    if refused:
        words = _count(len(refused), "site refuses", "sites refuse")
        found.append(f"{words} the portal's credentials: {_names(refused)}.")
    if found:
        return _sick(
            "sites",
            "Sites",
            " ".join(found),
            "The page of the site says why; requests there wait, other sites are not affected.",
        )
    return Part("sites", "Sites", works=True, message="Every enabled site answers.")


def _sick(key: str, title: str, message: str, remedy: str) -> Part:
    return Part(key, title, works=False, message=message, remedy=remedy)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _names(all_of: list[str]) -> str:
    more = len(all_of) - NAMED
    return ", ".join(sorted(all_of)[:NAMED]) + (f" and {more} more" if more > 0 else "")
