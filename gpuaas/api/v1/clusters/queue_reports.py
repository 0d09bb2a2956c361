"""Queue reports from the heads of clusters at OpenStack sites. Nobody is signed in; the token of the cluster is the only
credential."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, Switch, Text, TextOrEmpty, Whole
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.node_reports import bearer, refusals_counted
from gpuaas.api.views import ApiView
from gpuaas.clusters import services
from gpuaas.clusters.logins import LOGIN_MAX
from gpuaas.providers.base import PoolSignals, SlurmOrder, SlurmSeen

POOLS_MOST, NODES_MOST, GPUS_MOST, LOGINS_MOST = 100, 1000, 1_000_000, 10_000
JOBS_MOST, LOG_MOST = 1000, 20_000
LONGEST_REPORT = 256 * 1024  # ends of logs are in it
SECONDS_MOST = GPUS_MOST * 90_000  # of a day with 25 hours


class Seconds(Whole):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_value=2**37, help_text="Seconds since 1970.", **kwargs)


class UnhealthyInput(Input):
    number = Whole(min_value=1, max_value=GPUS_MOST)
    reason = Text(max_length=200, help_text="What is wrong with it, in words.")


class QueuedPoolInput(Input):
    pool = Text(max_length=20)
    used_gpus = Whole(min_value=0, max_value=GPUS_MOST, help_text="GPUs that jobs or pods use.")
    pending_gpus = Whole(min_value=0, max_value=GPUS_MOST, help_text="GPUs that jobs or pods wait for.")
    queued = Whole(min_value=0, max_value=GPUS_MOST, help_text="Number of waiting jobs or pods.")
    busy = serializers.ListField(
        child=Whole(min_value=1, max_value=GPUS_MOST),
        max_length=NODES_MOST,
        required=False,
        help_text="Numbers of the workers that have work.",
    )
    least = Whole(
        min_value=0,
        max_value=GPUS_MOST,
        required=False,
        help_text="Highest number of a worker that has work or accepts it. Without it no worker is drained.",
    )
    unhealthy = serializers.ListField(
        child=UnhealthyInput(),
        max_length=NODES_MOST,
        required=False,
        help_text="Workers that accept no work because something is wrong with them.",
    )


class UsedInput(Input):
    day = serializers.DateField(help_text="Of the billing time zone.")
    login = Text(max_length=LOGIN_MAX)
    gpu_seconds = Whole(
        min_value=0, max_value=SECONDS_MOST, help_text="Of the person's jobs on that day, so far."
    )


class JobSeenInput(Input):
    id = serializers.UUIDField(help_text="The portal's, as in the comment of the job.")
    state = Text(
        max_length=20,
        help_text="Slurm's; GONE for one that it does not know, ERROR for one that could not be submitted now, REFUSED for one "
        "that it never takes.",
    )
    slurm_id = Whole(required=False, min_value=1, help_text="Number of the job in Slurm.")
    reason = TextOrEmpty(max_length=300, help_text="Why it waits, or why it is refused.")
    error = TextOrEmpty(max_length=300, help_text="Why it could not be submitted now.")
    exit_code = Whole(required=False, max_value=255)
    started_at = Seconds()
    ended_at = Seconds()
    log = Text(
        required=False,
        max_length=LOG_MOST,
        allow_blank=True,
        trim_whitespace=False,
        help_text="The end of what it has written; left out where it was not read now.",
    )


class QueueReportInput(Input):
    pools = serializers.ListField(
        child=QueuedPoolInput(),
        max_length=POOLS_MOST,
        required=False,
        help_text="Pools that have workers or jobs. Without it the queue is not known, and the last report of it stays.",
    )
    logins = serializers.ListField(
        child=Text(max_length=LOGIN_MAX),
        max_length=LOGINS_MOST,
        required=False,
        help_text="Names of the logins that the machines let in now.",
    )
    usage = serializers.ListField(
        child=UsedInput(),
        max_length=LOGINS_MOST,
        required=False,
        help_text="What the jobs of each login used, by Slurm's accounting. The latest report of a day counts.",
    )
    jobs = serializers.ListField(
        child=JobSeenInput(),
        max_length=JOBS_MOST,
        required=False,
        help_text="What Slurm says about the jobs that the last answer named. Without it the head takes no jobs.",
    )
    moves = Switch(required=False, help_text="Whether the head submits movers of files. Default: false.")


class PoolOrderOutput(Output):
    pool = serializers.CharField()
    gpus = serializers.IntegerField(help_text="GPUs of one worker.")
    workers = serializers.IntegerField(help_text="Workers with higher numbers must not accept work.")
    machines = serializers.IntegerField(
        help_text="Workers with higher numbers are gone once they do not respond."
    )


class LoginOrderOutput(Output):
    name = serializers.CharField()
    uid = serializers.IntegerField(help_text="Number of the user and of its group, the same on all machines.")
    admitted = serializers.BooleanField(help_text="Whether the person may enter now.")


class LoginOrdersOutput(Output):
    account = serializers.CharField(
        help_text="Of Slurm's accounting; empty while no project has the cluster."
    )
    logins = LoginOrderOutput(many=True)


class JobOrderOutput(Output):
    id = serializers.UUIDField(help_text="The comment of the job is `gpuaas:` and this id.")
    slurm_id = serializers.IntegerField(allow_null=True, help_text="As reported; null: not yet.")
    login = serializers.CharField(help_text="As whom it is submitted.")
    since = serializers.SerializerMethodField(help_text="No job of this id is older, in seconds since 1970.")
    submit = serializers.BooleanField(
        help_text="To be submitted, unless Slurm has a job of this login and comment."
    )
    cancel = serializers.BooleanField(help_text="To be cancelled.")
    name = serializers.CharField()
    script = serializers.CharField(help_text="Empty unless it is to be submitted.")
    partition = serializers.CharField()
    nodes = serializers.IntegerField()
    tasks = serializers.IntegerField()
    gpus_per_node = serializers.IntegerField()
    cpus_per_task = serializers.IntegerField()
    memory_gib = serializers.IntegerField(allow_null=True)
    minutes = serializers.IntegerField(allow_null=True)
    keys = serializers.CharField(
        help_text="Of a mover of files that is to be submitted, the configuration of rclone, which is secret. Empty for all else."
    )

    def get_since(self, order: SlurmOrder) -> int:
        return int(order.since.timestamp())


class QueueReportOutput(Output):
    told_at = serializers.DateTimeField()
    pools = PoolOrderOutput(many=True)
    logins = LoginOrdersOutput(allow_null=True, help_text="Null for clusters without logins.")
    jobs = JobOrderOutput(
        many=True, allow_null=True, help_text="Jobs that have not ended. Null for a head that reports none."
    )


def _signals(*, unhealthy: Sequence[Mapping[str, Any]] = (), **facts: Any) -> PoolSignals:
    return PoolSignals(**facts, unhealthy=tuple((each["number"], each["reason"]) for each in unhealthy))


def _seen(*, started_at: int | None = None, ended_at: int | None = None, **facts: Any) -> SlurmSeen:
    return SlurmSeen(**facts, started_at=_moment(started_at), ended_at=_moment(ended_at))


def _moment(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


class QueueReportsView(ApiView):
    longest_body = LONGEST_REPORT
    authentication_classes = []
    permission_classes = []

    @operation(
        "queue_report", "Report the queue", body=QueueReportInput, created=QueueReportOutput, also=(429,)
    )
    def post(self, request: Request) -> Response:
        """Sent twice a minute by the heads of clusters at OpenStack sites. `Authorization: Bearer` carries the
        token that the portal put into the machine's user data, valid only for this operation and as long as the
        cluster lives. Policies of its pools follow the latest report; the answer names the workers to drain before
        they are deleted, and for a Slurm cluster who is to have a login on its machines, and which jobs to submit and
        cancel. A caller that is refused too often has to wait.
        """
        with refusals_counted():
            given = self.input(QueueReportInput) if bearer(request) else {}
            pools = given.get("pools")
            signals = None if pools is None else [_signals(**one) for one in pools]
            answer = services.queue_report(
                token=bearer(request),
                pools=signals,
                logins=given.get("logins"),
                used=[services.Used(**one) for one in given.get("usage", ())],
                jobs=None if "jobs" not in given else [_seen(**one) for one in given["jobs"]],
                moves=given.get("moves", False),
            )
        return Response(QueueReportOutput(answer).data, status=201)
