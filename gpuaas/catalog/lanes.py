"""Work at slow sites has a queue of its own, so that it does not hold the workers that all other sites wait for.

A site is slow once a call to it took SLOW_SECONDS, until none did for SLOW_FOR. Workers that are told no queues take both;
`worker --queues celery` and `worker --queues slow` keep them apart (decision 0074).
"""

from datetime import timedelta
from typing import Any

from celery import Task
from django.conf import settings
from django.db.models import Q

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.queue import send
from gpuaas.providers.measured import heard

SLOW_SECONDS = 5.0
SLOW_FOR = timedelta(minutes=5)
WRITTEN_EVERY = timedelta(minutes=1)  # while it stays slow
FORGOTTEN_SECONDS = (
    30  # then a message is dropped: the sweep has sent another one, if there is still something to do
)


class SiteTask(Task):  # type: ignore[type-arg]  # generic in its stub alone
    """A task whose first argument leads to one site, by the lookup `site_by` of Site."""

    abstract = True
    site_by = "pk"

    def __call__(self, *ids: str) -> Any:
        if self._is_for_others(ids[0]):
            send(self.name, ids, queue=settings.SLOW_QUEUE, expires=FORGOTTEN_SECONDS)
            return None
        with heard(site_heard):
            return super().__call__(*ids)

    def _is_for_others(self, row_id: str) -> bool:
        where = (self.request.delivery_info or {}).get("routing_key")
        if self.request.called_directly or where == settings.SLOW_QUEUE:
            return False
        return Site.objects.filter(**{self.site_by: row_id}, slow_until__gt=clock.now()).exists()


def site_heard(slug: str, seconds: float) -> None:
    """Marks the site as slow if the call took long; writes at most once in WRITTEN_EVERY for each site."""
    if seconds < SLOW_SECONDS:
        return
    until = clock.now() + SLOW_FOR
    stale = Q(slow_until=None) | Q(slow_until__lt=until - WRITTEN_EVERY)
    Site.objects.filter(stale, slug=slug).update(slow_until=until)
