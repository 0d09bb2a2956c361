"""Checks whether a site is ready to be sold; each check has a reason, and a remedy if it fails."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from gpuaas.core.errors import NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.providers import verdicts
from gpuaas.providers.base import Check
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.inventory.storage import CLASSES
from gpuaas.providers.kubernetes.preflight import canary, platform, queues, rights, server, training
from gpuaas.providers.verdicts import Kind

KINDS: tuple[Kind, ...] = (
    server.VERSION,
    server.FEATURES,
    verdicts.CREDENTIALS,
    verdicts.CLOCK,
    verdicts.PERMISSIONS,
    canary.QUOTA,
    canary.GUARDS,
    canary.PINNING,
    platform.NETWORK,
    platform.DEVICES,
    platform.STORAGE,
    platform.METRICS,
    platform.SCHEDULERS,
    platform.PREEMPTION,
    queues.KUEUE,
    training.JOBSET,
    training.TRAINER,
    server.HEARTBEATS,
)
_RIGHTS_FIRST = "Give the portal's credentials the rights that Permissions lists, then run the checks again."


def run(api: Api, kubeconfig: str, schedulers: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """In the order of KINDS. `schedulers`: those of the site's option.

    Raises Unavailable, and Unauthorized if the site accepts no call at all.
    """
    found = {
        check.type: check
        for check in (
            *_of_server(api, kubeconfig),
            *_tried_out(api, schedulers),
            *_of_platform(api, schedulers),
        )
    }
    return tuple(found[kind.type] for kind in KINDS)


def _of_server(api: Api, kubeconfig: str) -> Iterator[Check]:
    yield server.version(api)
    yield server.features(api)
    yield server.credentials(kubeconfig)
    yield server.skew(api)
    yield rights.permissions(api)


def _tried_out(api: Api, schedulers: tuple[str, ...]) -> Iterator[Check]:
    try:
        in_the_way = canary.prepare(api, schedulers)
    except (Unauthorized, Permanent, NotFound) as error:
        in_the_way = error.message
    for kind, check in (
        (canary.QUOTA, canary.quota_acts),
        (canary.GUARDS, canary.guards_act),
        (canary.PINNING, canary.pinning_acts),
        (queues.KUEUE, queues.kueue),
        (training.JOBSET, training.jobset),
        (training.TRAINER, training.trainer),
    ):
        if in_the_way:
            yield kind.unknown("NotTried", f"This could not be tested: {in_the_way}.", _RIGHTS_FIRST)
        else:
            yield _looked(kind, partial(check, api))


def _of_platform(api: Api, schedulers: tuple[str, ...]) -> Iterator[Check]:
    daemon_sets = cache(lambda: api.items("/apis/apps/v1/daemonsets"))
    yield _looked(platform.NETWORK, lambda: platform.network(daemon_sets()))
    yield _looked(platform.DEVICES, lambda: platform.visible_devices(api, daemon_sets()))
    yield _looked(platform.METRICS, lambda: platform.metrics(daemon_sets()))
    yield _looked(platform.STORAGE, lambda: platform.storage(api.items(CLASSES)))
    yield _looked(platform.SCHEDULERS, lambda: platform.schedulers(api, schedulers))
    yield _looked(platform.PREEMPTION, lambda: platform.preemption(api))
    yield _looked(server.HEARTBEATS, lambda: server.heartbeats(api, api.items("/api/v1/nodes")))


def _looked(kind: Kind, check: Callable[[], Check]) -> Check:
    """A check that lacks rights, or that a webhook of the site's holds up, is unknown; if the site does not answer, Unavailable is
    raised."""
    try:
        return check()
    except Unauthorized as error:
        return kind.unknown("NotAllowed", error.message, _RIGHTS_FIRST)
    except (Permanent, NotFound, Unavailable) as error:
        if isinstance(error, Unavailable) and training.WEBHOOK not in error.message:
            raise
        return kind.unknown(
            "Refused", error.message, "Look at the site's message, then run the checks again."
        )
