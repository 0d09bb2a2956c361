"""Which consumers exceed the allowance of their workspace or cluster: pure, and independent of the order of events."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from gpuaas.providers.base import ObservedConsumer, UseState
from quotas.allowances import Allowance, Surplus

# the site's clock and ours need not agree to the second; in doubt a consumer is left alone
CLOCK_SKEW = timedelta(seconds=5)


def surplus(
    consumers: Iterable[ObservedConsumer],
    allowance: Allowance,
    *,
    enforced: Mapping[str, int],
    now: datetime,
) -> list[Surplus]:
    """The newest consumers that have to go until the rest fits; by start, then creation, then uid.

    Held are the devices of all consumers that are bound and have not ended. One that is ending holds them until it
    has ended, unless the site's quota no longer counts it: then another one may rightfully have taken its place.
    During a change, what the site enforces counts if it is more than what is recorded.
    """
    holding = [each for each in consumers if holds(each) and not _is_uncharged(each, now)]
    newest_first = sorted(holding, key=_age, reverse=True)
    excess: dict[str, Surplus] = {}
    for resource, bought in sorted(allowance.limits.items()):
        limit = bought if allowance.settled else max(bought, enforced.get(resource, 0))
        held = sum(each.gpus.get(resource, 0) for each in holding if each.uid not in excess)
        for each in newest_first:
            if held <= limit:
                break
            quantity = each.gpus.get(resource, 0)
            if quantity <= 0 or each.uid in excess or _stays(each, allowance):
                continue
            excess[each.uid] = Surplus(each, resource, quantity, limit, held)
            held -= quantity
    return list(excess.values())


def holds(consumer: ObservedConsumer) -> bool:
    """A consumer has its devices from the moment it is bound until it has ended, or was put away."""
    bound = consumer.started_at is not None and consumer.ended_at is None
    return bound and consumer.state is not UseState.SHELVED


def _is_uncharged(consumer: ObservedConsumer, now: datetime) -> bool:
    return consumer.uncharged_at is not None and consumer.uncharged_at <= now + CLOCK_SKEW


def _stays(consumer: ObservedConsumer, allowance: Allowance) -> bool:
    return allowance.older_than is not None and consumer.created_at < allowance.older_than


def _age(consumer: ObservedConsumer) -> tuple[datetime, datetime, str]:
    return consumer.started_at or consumer.created_at, consumer.created_at, consumer.uid
