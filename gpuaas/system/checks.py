"""What `check --deploy` tries beside the values of settings: each service, the clock, and each site, as they answer now.

`check --deploy --tag security` looks at the values alone, where nothing is there yet that could answer.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as Doubt
from django.core.mail import get_connection
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import driver_of
from gpuaas.core.pulse import clock_skew
from gpuaas.system import health
from gpuaas.system.health import Part

TAG = "services"
MAIL_SECONDS, SITE_SECONDS, AT_ONCE = 5, 10, 8


def register_all() -> None:
    register(services_answer, TAG, deploy=True)


def services_answer(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """An error for a service of the portal that does not answer, a warning for a site. Nothing is written."""
    del app_configs, kwargs
    database = health.database_part()
    parts = [database, health.broker_part(), health.channels_part(), mail_part()]
    if database.works:
        parts.append(clock_part())
    sick = [
        Error(part.message, hint=part.remedy, id=f"gpuaas.{part.key}") for part in parts if not part.works
    ]
    return [*sick, *(sites_silent() if database.works else ())]


def mail_part() -> Part:
    """Signs in at the server, and sends nothing."""
    if not settings.MAILS_ENABLED:
        return Part("mail", "Mail", works=True, message="No mail is sent.")
    try:
        server = get_connection(fail_silently=False, timeout=MAIL_SECONDS)
        server.open()
        server.close()
    except Exception as error:  # noqa: BLE001  each backend raises errors of its own
        return Part(
            "mail",
            "Mail",
            works=False,
            message=f"The mail server does not take us ({type(error).__name__}: {error}).",
            remedy="Check the server, GPUAAS_MAIL_URL and the network between them.",
        )
    return Part("mail", "Mail", works=True, message="The mail server takes us.")


def clock_part() -> Part:
    skew = abs(clock_skew())
    return Part(
        "clock",
        "Clock",
        works=skew <= health.SKEW_SECONDS,
        message=f"This host's clock differs from the database's by {skew:.1f} seconds.",
        remedy="Set it, or the database's, by a time server: work would be taken over too early or too late.",
    )


def sites_silent() -> Iterator[CheckMessage]:
    """Asks all enabled sites beside each other."""
    sites = list(Site.objects.filter(enabled=True, removed_at__isnull=True).order_by("slug"))
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        asked = [(site, pool.submit(_probe_of(site))) for site in sites]
        for site, answer in asked:
            try:
                trouble = answer.result(timeout=SITE_SECONDS)
            except Late:
                trouble = f"no answer within {SITE_SECONDS} seconds"
            if trouble:
                yield Doubt(
                    f"The site {site.slug} does not answer: {trouble}.",
                    hint="Its page lists the checks with their remedies; other sites are not affected.",
                    id="gpuaas.site",
                )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _probe_of(site: Site) -> Callable[[], str]:
    def ask() -> str:
        try:
            driver_of(site).probe()
        except Exception as error:  # noqa: BLE001  whatever a plug-in raises is shown with its site
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return ""

    return ask
