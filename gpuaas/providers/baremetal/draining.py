"""Drains a machine through the cluster's own API before its host is wiped, for a limited time."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from gpuaas.core import clock
from gpuaas.core.errors import Unauthorized, Unavailable
from gpuaas.providers.baremetal.hosts import host_drain_begin, host_drain_end, host_drain_gave_up
from gpuaas.providers.baremetal.models import Host
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeapi.draining import node_drain, node_forget, node_restore

# the cluster does not answer, or not to us
AWAY = (Unavailable, Unauthorized)


class Drain:
    """Drains machines of one cluster. `open_api` returns None while the cluster has no API: then nothing runs on them."""

    def __init__(self, open_api: Callable[[], Api | None], *, within: timedelta) -> None:
        self._open, self._within = open_api, within

    def waits(self, host: Host) -> str:
        """What the drain waits for, in words; "" once the host may be wiped. The start is stored first, so that a restarted worker
        does not restart the time limit."""
        until = host_drain_begin(host) + self._within
        left = self._left(host)
        now = clock.now()
        if not left:
            return ""
        if now >= until:
            host_drain_gave_up(host, f"not drained within {_minutes(self._within)}: {left}")
            return ""
        return f"{host.name} is being drained: {left}; it is wiped anyway in {_minutes(until - now)}"

    def cancel(self, host: Host) -> None:
        """The host was to leave and is now kept."""
        api = self._open()
        if api is not None:
            with closing(api):
                node_restore(api, host.name)
        host_drain_end(host)

    def forget(self, host: Host) -> None:
        """Remove the node of a wiped host. A cluster that does not answer keeps the node's name."""
        api = self._open()
        if api is None:
            return
        with closing(api):
            try:
                node_forget(api, host.name)
            except AWAY:
                return

    def _left(self, host: Host) -> str:
        api = self._open()
        if api is None:
            return ""
        with closing(api):
            try:
                left = node_drain(api, host.name)
            except AWAY as error:
                return f"its cluster does not answer ({error.message[:120]})"
        if not left:
            return ""
        held = next((one for one in left if one.held), left[0])
        count = "1 pod is" if len(left) == 1 else f"{len(left)} pods are"
        return f"{count} still on it; {held}"


def _minutes(time: timedelta) -> str:
    whole = max(-(-int(time.total_seconds()) // 60), 0)
    return "a minute" if whole == 1 else f"{whole} minutes"
