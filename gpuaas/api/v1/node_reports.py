"""Machines of clusters on demand, while they boot: nobody is signed in, the token of the boot is all there is."""

from django.core.cache import cache
from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.authentication import SCHEME
from gpuaas.api.fields import Input, Output, Pick, Text
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView
from gpuaas.clusters import services
from gpuaas.clusters.services.reports import MESSAGE_MOST
from gpuaas.core.errors import Unauthorized
from gpuaas.providers.base import Stage

TAG = "clusters"
REFUSED_MOST, WINDOW_SECONDS = 30, 60  # refusals of one address, and within how long


class NodeReportInput(Input):
    stage = Pick(choices=[(stage.value, stage.value) for stage in Stage])
    message = Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=MESSAGE_MOST,
        help_text="What went wrong, with the last lines that were said; of the stage failed.",
    )


class NodeReportOutput(Output):
    node = serializers.CharField(help_text="The machine, as the site calls it.")
    stage = serializers.ChoiceField(choices=[(stage.value, stage.value) for stage in Stage])


class NodeReportsView(ApiView):
    authentication_classes = []
    permission_classes = []

    @operation(
        "node_report",
        "Report a stage of a boot",
        tag=TAG,
        body=NodeReportInput,
        answer=NodeReportOutput,
        status=201,
        also=(429,),
    )
    def post(self, request: Request) -> Response:
        """Made by the machines of clusters on demand: `Authorization: Bearer` carries the token that the portal put into the machine's
        user data, good for one boot of one machine. Each stage is taken once (409 afterwards); after `ready` or `failed` the token is
        worthless. Whoever is refused too often has to wait.
        """
        key = f"node-reports:{request.META.get('REMOTE_ADDR', '')}"
        if cache.get(key, 0) >= REFUSED_MOST:
            raise exceptions.Throttled(wait=WINDOW_SECONDS)
        try:
            given = self.input(NodeReportInput) if _token(request) else {"stage": Stage.BOOTED}
            row = services.node_report(
                token=_token(request), stage=Stage(given["stage"]), message=given.get("message", "")
            )
        except Unauthorized:
            cache.add(key, 0, WINDOW_SECONDS)
            _count(key)
            raise
        return Response(NodeReportOutput(row).data, status=201)


def _token(request: Request) -> str:
    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    return raw.strip() if scheme.lower() == SCHEME else ""


def _count(key: str) -> None:
    try:
        cache.incr(key)
    except ValueError:  # it has run out this moment
        cache.set(key, 1, WINDOW_SECONDS)
