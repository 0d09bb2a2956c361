"""Queue reports from the heads of clusters at OpenStack sites. Nobody is signed in; the token of the cluster is the only
credential."""

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, Text, Whole
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.node_reports import bearer, refusals_counted
from gpuaas.api.views import ApiView
from gpuaas.clusters import services
from gpuaas.clusters.logins import LOGIN_MAX
from gpuaas.providers.base import PoolSignals

POOLS_MOST, NODES_MOST, GPUS_MOST, LOGINS_MOST = 100, 1000, 1_000_000, 10_000
SECONDS_MOST = GPUS_MOST * 90_000  # of a day with 25 hours


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


class QueueReportOutput(Output):
    told_at = serializers.DateTimeField()
    pools = PoolOrderOutput(many=True)
    logins = LoginOrdersOutput(allow_null=True, help_text="Null for clusters without logins.")


def _signals(*, unhealthy: Sequence[Mapping[str, Any]] = (), **facts: Any) -> PoolSignals:
    return PoolSignals(**facts, unhealthy=tuple((each["number"], each["reason"]) for each in unhealthy))


class QueueReportsView(ApiView):
    authentication_classes = []
    permission_classes = []

    @operation(
        "queue_report", "Report the queue", body=QueueReportInput, created=QueueReportOutput, also=(429,)
    )
    def post(self, request: Request) -> Response:
        """Sent twice a minute by the heads of clusters at OpenStack sites. `Authorization: Bearer` carries the
        token that the portal put into the machine's user data, valid only for this operation and as long as the
        cluster lives. Policies of its pools follow the latest report; the answer names the workers to drain before
        they are deleted, and for a Slurm cluster who is to have a login on its machines. A caller that is refused too often has to wait.
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
            )
        return Response(QueueReportOutput(answer).data, status=201)
