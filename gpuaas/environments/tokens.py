"""Requests and tokens of an endpoint: what its server's own counters say, read once a minute and added up by day of the billing
time zone.

A counter that is lower than before has begun anew, and with it all of them. What was counted between the last look and an end
that nobody announced is lost; never is anything counted twice.
"""

import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from django.db import connection, transaction

from gpuaas.core import claims, clock
from gpuaas.core.claims import ClaimLost, claimed
from gpuaas.core.errors import GpuaasError, Unavailable
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import Environment, EnvironmentCounter
from gpuaas.environments.pod import NONSENSE, TEXT, asker
from gpuaas.environments.services.rows import ENVIRONMENT
from gpuaas.environments.spec import FOR_SPEC
from gpuaas.environments.states import CHANGING, EnvironmentState

LOOK: Final = timedelta(minutes=1)
LOOK_MOST: Final = 300.0  # seconds, of one that does not answer
SECONDS: Final = 3.0  # as long as one look holds a worker of its site
# of one counter, years of the fastest server: sums of a day fit into a column and what they cost into an invoice, whatever a server
# claims each minute of it
COUNT_MOST: Final = 10**13
VLLM: Final = {
    "vllm:request_success_total": "requests",
    "vllm:prompt_tokens_total": "tokens_in",
    "vllm:generation_tokens_total": "tokens_out",
}
# https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?[ \t]+(\S+)(?:[ \t]+-?[0-9]+)?[ \t]*")
ADD: Final = """
INSERT INTO environments_tokenday AS kept (environment_id, day, requests, tokens_in, tokens_out)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (environment_id, day) DO UPDATE SET requests = kept.requests + EXCLUDED.requests,
    tokens_in = kept.tokens_in + EXCLUDED.tokens_in, tokens_out = kept.tokens_out + EXCLUDED.tokens_out
"""


@dataclass(frozen=True)
class Counts:
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def since(self, before: "Counts") -> "Counts":
        """What has come since then, by the same server or by one that has begun anew."""
        pairs = list(zip(astuple(self), astuple(before), strict=True))
        if any(now < then for now, then in pairs):
            return self
        return Counts(*(now - then for now, then in pairs))


def vllm(text: str) -> Counts:
    """Of all its models and engines, however their requests ended. Raises ValueError for what is none of its answers, or a part of
    one: a counter that is missing there would be lower than before, and all that was counted would be counted again."""
    if not all(name in text for name in VLLM):
        raise ValueError("no counters of vLLM")
    found = Counter[str]()
    for line in text.split("\n"):
        if not line.startswith(tuple(VLLM)):
            continue
        sample = SAMPLE.fullmatch(line.rstrip("\r"))
        if sample is None:
            raise ValueError("a line that is no sample")
        if name := VLLM.get(sample[1]):
            found[name] += _count(sample[2])
    return Counts(**{name: _count(value) for name, value in found.items()})


def _count(value: str | int) -> int:
    number = float(value)
    if not 0 <= number <= COUNT_MOST:  # neither is NaN
        raise ValueError("no number of things")
    return int(number)


READERS: Final[Mapping[str, Callable[[str], Counts]]] = {"vllm": vllm}


def counts_read(row: Environment, *, seconds: float = SECONDS) -> Counts | None:
    """Calls the site, unless the kind has no counters. Needs what `spec_of` needs. Raises the errors of the site, and Unavailable
    where nothing answers, or something else."""
    definition = definition_read(row.made_of.document)
    read = READERS.get(definition.metrics)
    if read is None:
        return None
    ask = asker(row, accept=TEXT, seconds=seconds)
    try:
        return read(ask(definition.metrics_path).decode())
    except NONSENSE as error:
        raise Unavailable("its counters are not what they should be") from error


# -- the round -----------------------------------------------------------------------------------------------------


def counts_begin(row: Environment) -> None:
    """With its server, from nothing; a look that is under way at the one before is dropped."""
    if definition_read(row.made_of.document).metrics:
        moment = clock.now()
        anew = {**asdict(Counts()), "due_at": moment, "moved_at": moment, "attempts": 0, "failure": ""}
        anew |= {"claim_token": None, "claim_until": None}
        EnvironmentCounter.objects.update_or_create(environment=row, defaults=anew)


def counts_look(environment_id: uuid.UUID) -> bool:
    """Reads and adds. Safe at any time, in any number of processes."""
    return claimed(EnvironmentCounter, environment_id, _look, failed=_again, only_due=True)


def counts_last(environment_id: uuid.UUID) -> None:
    """Once more before it ends, if it was counted until now: not for long, and whatever comes of it."""
    if EnvironmentCounter.objects.filter(pk=environment_id, due_at__isnull=False).exists():
        claimed(EnvironmentCounter, environment_id, partial(_look, last=True), failed=_at_rest)


def _look(counter: EnvironmentCounter, *, last: bool = False) -> bool:
    row = Environment.objects.select_related(*FOR_SPEC).get(pk=counter.pk)
    if row.state != EnvironmentState.READY and not last:
        # before it ends it is looked at once more by who ends it
        return claims.rest(counter, due_at=clock.now() + LOOK if row.state in CHANGING else None)
    found = counts_read(row, seconds=SECONDS)
    if found is None:
        return claims.rest(counter)
    _add(counter, found, last=last)
    return True


@transaction.atomic
def _add(counter: EnvironmentCounter, found: Counts, *, last: bool) -> None:
    """What has come, and up to where it was counted, are written together or not at all."""
    moment = clock.now()
    more = found.since(Counts(counter.requests, counter.tokens_in, counter.tokens_out))
    if any(astuple(more)):
        with connection.cursor() as cursor:
            cursor.execute(ADD, [counter.pk, clock.billing_day(moment), *astuple(more)])
    read = {**asdict(found), "read_at": moment, "failure": ""}
    read["moved_at"] = moment if any(astuple(more)) else counter.moved_at or moment
    if not claims.release(counter, due_at=None if last else moment + LOOK, attempts=0, **read):
        raise ClaimLost("it has begun anew, or another process has counted it")
    if any(astuple(more)) or counter.failure:
        ENVIRONMENT.announce(counter.environment)


def _again(counter: EnvironmentCounter, error: GpuaasError) -> None:
    claims.retry(counter, error, most=LOOK_MOST, failure=error.message[:300])
    if not counter.failure:
        ENVIRONMENT.announce(counter.environment)


def _at_rest(counter: EnvironmentCounter, error: GpuaasError) -> None:
    claims.release(counter, due_at=None, attempts=0, failure=error.message[:300])
