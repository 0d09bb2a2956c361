"""Requests and tokens: what a server's counters say, by real servers and by hostile ones, counted once and by day."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
import time_machine
from celery import current_app
from prometheus_client import CollectorRegistry, generate_latest

from gpuaas.core import clock
from gpuaas.core.errors import Unavailable
from gpuaas.environments import tokens
from gpuaas.environments.models import Environment, EnvironmentCounter, TokenDay
from gpuaas.environments.selectors import Tokens, tokens_of
from gpuaas.environments.services import environment_delete, environment_restart, environment_stop
from gpuaas.environments.spec import FOR_SPEC
from gpuaas.environments.tasks import environment_count, uses
from gpuaas.environments.tokens import COUNT_MOST, VLLM, Counts, counts_begin, counts_look, vllm
from gpuaas.providers.base import Address
from gpuaas.providers.sandbox.dials import ALWAYS, failure_plan, fault_set
from gpuaas.providers.sandbox.environments import SandboxEnvironments
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.environments import stage
from tests.environments.metered import CHUNKS, HOSTILE, Model, hostile, served
from tests.environments.stage import START, settle
from tests.lasting import lasting
from tests.workspaces.test_races import at_once

MINUTE = timedelta(minutes=1)
TODAY = date(2027, 3, 1)
# as a server names a counter that has counted nothing yet
NAMED = "\n".join(f"# TYPE {name} counter" for name in VLLM)


@pytest.fixture
@lasting
def notebook(as_alice: Actor, workspace: Workspace) -> Environment:
    """With counters, which the simulated site counts as it is dialed."""
    stage.kind(metrics="vllm")
    row = stage.ready(as_alice, workspace, gpus=0)
    says(row, 0, 0, 0)
    return row


@pytest.fixture
def dated(travel: time_machine.Traveller, notebook: Environment) -> Environment:
    return notebook


def says(row: Environment, requests: Any, tokens_in: Any, tokens_out: Any) -> None:
    named = {"request_success": requests, "prompt_tokens": tokens_in, "generation_tokens": tokens_out}
    found = {name: str(value) for name, value in named.items()}
    fault_set(row.site_id, area="use", name=row.external_name, found=found)


def look(row: Environment) -> EnvironmentCounter:
    """At its counters, whenever that would have been due."""
    EnvironmentCounter.objects.filter(pk=row.pk).update(due_at=clock.now())
    counts_look(row.pk)
    return EnvironmentCounter.objects.get(pk=row.pk)


def days() -> list[tuple[date, int, int, int]]:
    return list(TokenDay.objects.order_by("day").values_list("day", "requests", "tokens_in", "tokens_out"))


def loaded(row: Environment) -> Environment:
    return Environment.objects.select_related(*FOR_SPEC).get(pk=row.pk)


# -- what counters say ---------------------------------------------------------------------------------------------


def test_the_text_of_a_real_client_is_read() -> None:
    model = Model(CollectorRegistry())
    assert vllm(generate_latest(model.registry).decode()) == Counts()
    model.serve(7, 5, reason="stop")
    model.serve(11, 13, reason='a "b} 9\n{ \\')
    text = generate_latest(model.registry).decode()
    assert "vllm:prompt_tokens_created" in text
    assert vllm(text) == Counts(2, 18, 18)
    assert vllm(text.replace("\n", "\r\n")) == Counts(2, 18, 18)


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        ("7", 7),
        ("7.0", 7),
        ("7.9", 7),
        ("1e3", 1000),
        ("0", 0),
        ("-0", 0),
        ("7 1700000000000", 7),
        (str(COUNT_MOST), COUNT_MOST),
    ],
)
def test_numbers_as_they_may_be_written(written: str, counted: int) -> None:
    for labels in ("", "{}", '{model_name="a b",engine="0"}'):
        assert vllm(f"{NAMED}\nvllm:prompt_tokens_total{labels} {written}") == Counts(tokens_in=counted)


@pytest.mark.parametrize(
    "written",
    ["NaN", "+Inf", "-Inf", "-1", "1e16", "1e999", "", "x", "7 x", "0x7", f"{COUNT_MOST + 1}", "7 7 7"],
)
def test_numbers_that_none_are_count_nothing(written: str) -> None:
    with pytest.raises(ValueError, match=r"sample|number|float"):
        vllm(f"{NAMED}\nvllm:prompt_tokens_total {written}")


def test_sums_that_are_too_much_count_nothing_either() -> None:
    with pytest.raises(ValueError, match="number"):
        vllm(
            "\n".join(
                [NAMED, *(f'vllm:prompt_tokens_total{{engine="{each}"}} {COUNT_MOST}' for each in range(2))]
            )
        )


@pytest.mark.parametrize("text", ["", "<html>", "# nothing", 'up{job="vllm"} 1', "prompt_tokens_total 5"])
def test_what_is_not_vllm_counts_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="no counters"):
        vllm(text)


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        (Counts(), Counts(1, 2, 3), Counts(1, 2, 3)),
        (Counts(1, 2, 3), Counts(1, 2, 3), Counts()),
        (Counts(1, 2, 3), Counts(2, 20, 30), Counts(1, 18, 27)),
        # one is lower: all have begun anew
        (Counts(5, 500, 50), Counts(1, 600, 60), Counts(1, 600, 60)),
        (Counts(5, 500, 50), Counts(), Counts()),
    ],
)
def test_what_has_come_since(before: Counts, now: Counts, more: Counts) -> None:
    assert now.since(before) == more


# -- by day --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_is_added_up_by_day(travel: time_machine.Traveller, dated: Environment) -> None:
    says(dated, 2, 700, 240)
    first = look(dated)
    assert (days(), first.failure) == ([(TODAY, 2, 700, 240)], "")
    assert first.due_at == START + MINUTE
    assert first.read_at == START
    look(dated)
    assert days() == [(TODAY, 2, 700, 240)]
    travel.move_to(START + timedelta(hours=14, minutes=59))
    says(dated, 3, 1050, 360)
    look(dated)
    travel.move_to(START + timedelta(hours=15))  # midnight in Berlin
    says(dated, 1, 10, 5)  # another server
    look(dated)
    assert days() == [(TODAY, 3, 1050, 360), (TODAY + timedelta(days=1), 1, 10, 5)]
    assert tokens_of(environment=dated) == (Tokens(1, 10, 5), Tokens(4, 1060, 365))
    travel.move_to(START + timedelta(days=31))
    assert tokens_of(environment=dated) == (Tokens(0, 0, 0), Tokens(0, 0, 0))


@pytest.mark.django_db
def test_what_is_claimed_each_minute_of_a_day_fits(dated: Environment) -> None:
    for _ in range(2):
        for number in (COUNT_MOST, 0):
            says(dated, number, number, number)
            look(dated)
    TokenDay.objects.update(requests=1440 * COUNT_MOST)
    says(dated, COUNT_MOST, COUNT_MOST, COUNT_MOST)
    assert look(dated).failure == ""
    assert tokens_of(environment=dated)[0].requests == 1441 * COUNT_MOST


@pytest.mark.django_db(transaction=True)
def test_the_round_sends_for_those_that_are_due(
    notebook: Environment, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.QUEUE_ENABLED = True
    sent: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(current_app, "send_task", lambda task, args, **_: sent.append((task, args)))
    look(notebook)
    uses()
    assert "environments.count" not in dict(sent)
    EnvironmentCounter.objects.update(due_at=clock.now())
    uses()
    assert ("environments.count", [str(notebook.pk)]) in sent
    says(notebook, 1, 10, 5)
    assert environment_count(str(notebook.pk))
    assert [each[1:] for each in days()] == [(1, 10, 5)]


@pytest.mark.django_db
def test_a_kind_without_counters_has_none(as_alice: Actor, workspace: Workspace) -> None:
    row = stage.ready(as_alice, workspace, gpus=0)
    assert not EnvironmentCounter.objects.exists()
    assert tokens.counts_read(loaded(row)) is None


@pytest.mark.django_db
def test_one_that_does_not_answer_is_asked_later_and_loses_nothing(
    travel: time_machine.Traveller, dated: Environment
) -> None:
    says(dated, 1, 10, 5)
    look(dated)
    failure_plan(dated.site_id, verb="environment-reach", error="unavailable", times=ALWAYS)
    failed = look(dated)
    assert failed.failure
    assert failed.due_at is not None
    assert START < failed.due_at <= START + timedelta(seconds=300)
    failure_plan(dated.site_id, verb="environment-reach", times=0)
    says(dated, "NaN", 10, 5)
    assert look(dated).failure == "its counters are not what they should be"
    says(dated, 3, 30, 15)
    assert look(dated).failure == ""
    assert days() == [(TODAY, 3, 30, 15)]


# -- once ----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_eight_workers_at_once_count_once(notebook: Environment) -> None:
    for number in range(1, 4):
        says(notebook, number, number * 10, number * 5)
        EnvironmentCounter.objects.update(due_at=clock.now())
        at_once(8, lambda _: counts_look(notebook.pk))
    (found,) = days()
    assert found[1:] == (3, 30, 15)


@pytest.mark.django_db
def test_what_was_read_of_a_server_that_has_ended_meanwhile_is_dropped(
    notebook: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(row: Environment, *, seconds: float) -> Counts:
        counts_begin(row)
        return Counts(9, 90, 45)

    with monkeypatch.context() as patched:
        patched.setattr(tokens, "counts_read", meanwhile)
        assert not counts_look(notebook.pk)
    assert days() == []
    says(notebook, 1, 10, 5)
    assert look(notebook).requests == 1
    assert [each[1:] for each in days()] == [(1, 10, 5)]


DEEDS: dict[str, Callable[..., Environment]] = {
    "stop": environment_stop,
    "restart": environment_restart,
    "delete": environment_delete,
}


@pytest.mark.django_db
@pytest.mark.parametrize("how", DEEDS)
def test_it_is_read_once_more_before_it_ends(notebook: Environment, as_alice: Actor, how: str) -> None:
    says(notebook, 1, 10, 5)
    look(notebook)
    says(notebook, 4, 40, 20)
    row = DEEDS[how](actor=as_alice, environment=notebook)
    counter = look(row)
    assert (counter.requests, counter.due_at is not None) == (1, True), "who ends it looks last"
    row = settle(row)
    assert [each[1:] for each in days()] == [(4, 40, 20)]
    counter = EnvironmentCounter.objects.get()
    if how == "restart":
        assert (counter.requests, counter.due_at is not None) == (0, True)
        says(row, 5, 50, 25)  # more than before, and all of it is new
        look(row)
        assert [each[1:] for each in days()] == [(9, 90, 45)]
    else:
        assert counter.due_at is None


@pytest.mark.django_db
def test_one_that_does_not_answer_stops_all_the_same(notebook: Environment, as_alice: Actor) -> None:
    asked = list[float]()

    def silent(row: Environment, *, seconds: float) -> Counts:
        asked.append(seconds)
        raise Unavailable("its API does not answer")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tokens, "counts_read", silent)
        row = settle(environment_stop(actor=as_alice, environment=notebook))
    assert (row.state, asked) == ("suspended", [3.0])
    assert EnvironmentCounter.objects.get().due_at is None


# -- real servers, and hostile ones --------------------------------------------------------------------------------


@pytest.fixture
def at_port(notebook: Environment, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Environment]:
    """The site leads to a port of this machine."""

    def lead(port: int) -> Environment:
        monkeypatch.setattr(SandboxEnvironments, "reach", lambda *_: Address("127.0.0.1", port))
        return notebook

    return lead


@pytest.mark.django_db
@pytest.mark.parametrize("server", ["uvicorn", "h11", "wsgi"])
def test_a_real_server_is_counted(at_port: Callable[[int], Environment], server: str) -> None:
    """The first two send chunks, the other a length."""
    model = Model(CollectorRegistry())
    with served(model.registry, server) as port:
        row = at_port(port)
        for number in range(3):
            model.serve(100, 40, reason="stop" if number else "length")
        assert look(row).failure == ""
        model.serve(1, 2, reason="abort")
        look(row)
    assert [each[1:] for each in days()] == [(4, 301, 122)]
    assert look(row).failure


@pytest.mark.django_db
def test_chunks_are_put_together(at_port: Callable[[int], Environment]) -> None:
    with hostile(CHUNKS) as port:
        assert look(at_port(port)).failure == ""
    assert [each[1:] for each in days()] == [(5, 50, 25)]


@pytest.mark.django_db
def test_a_page_that_is_cut_does_not_count_all_anew(at_port: Callable[[int], Environment]) -> None:
    """Of a server that ends while it answers: a counter that is missing would be lower than before."""
    with hostile(CHUNKS) as port:
        look(at_port(port))
    with hostile("cut short") as port:
        assert look(at_port(port)).failure
    assert [each[1:] for each in days()] == [(5, 50, 25)]


@pytest.mark.django_db
@pytest.mark.parametrize("name", VLLM)
def test_a_page_without_one_of_three_does_not_count_all_anew(
    at_port: Callable[[int], Environment], name: str
) -> None:
    """It is another program's, or a part of one: all three are counted or none."""
    with hostile(CHUNKS) as port:
        look(at_port(port))
    with hostile(f"without {name}") as port:
        assert look(at_port(port)).failure
    with hostile(CHUNKS) as port:
        assert look(at_port(port)).failure == ""
    assert [each[1:] for each in days()] == [(5, 50, 25)]


@pytest.mark.django_db
def test_a_round_waits_for_three_seconds(at_port: Callable[[int], Environment]) -> None:
    with hostile("silence") as port:
        assert look(at_port(port)).failure == "its API does not answer within 3 seconds"


@pytest.mark.django_db
@pytest.mark.parametrize("way", HOSTILE)
def test_a_hostile_server_counts_nothing_and_is_left_in_time(
    at_port: Callable[[int], Environment], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr("gpuaas.environments.tokens.SECONDS", 1.0)
    with hostile(way) as port:
        counter = look(at_port(port))
    assert (days(), counter.requests) == ([], 0)
    assert counter.failure
    assert counter.attempts == 1


@pytest.mark.django_db
def test_a_hostile_server_is_stopped_all_the_same(
    at_port: Callable[[int], Environment], as_alice: Actor
) -> None:
    with hostile("a status of nulls") as port:
        row = settle(environment_stop(actor=as_alice, environment=at_port(port)))
    assert row.state == "suspended"
    assert EnvironmentCounter.objects.get().due_at is None
