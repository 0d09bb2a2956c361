"""Boot reports from the machines of clusters. Nobody is signed in; the token of the boot is the only credential."""

from collections.abc import Iterator
from contextlib import contextmanager

from rest_framework import exceptions, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.authentication import SCHEME
from gpuaas.api.fields import Input, Output, Pick, TextOrEmpty
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView
from gpuaas.clusters import services
from gpuaas.clusters.services.reports import MESSAGE_MOST
from gpuaas.core.errors import Unauthorized
from gpuaas.core.rate import Rate
from gpuaas.core.request import current_request
from gpuaas.providers.base import Stage

REFUSED_MOST = 30  # of one network in a minute
_refused = Rate()


class NodeReportInput(Input):
    stage = Pick(choices=[(stage.value, stage.value) for stage in Stage])
    message = TextOrEmpty(
        max_length=MESSAGE_MOST, help_text="The error with the last lines of output; for the stage failed."
    )


class NodeReportOutput(Output):
    node = serializers.CharField(help_text="The site's name of the machine.")
    stage = serializers.ChoiceField(choices=[(stage.value, stage.value) for stage in Stage])


class NodeReportsView(ApiView):
    authentication_classes = []
    permission_classes = []

    @operation(
        "node_report", "Report a boot stage", body=NodeReportInput, created=NodeReportOutput, also=(429,)
    )
    def post(self, request: Request) -> Response:
        """Sent by the machines of clusters. `Authorization: Bearer` carries the token that the portal put into the
        machine's user data, valid for one boot of one machine. Each stage is accepted once (409 afterwards). After
        `ready` or `failed` the token is no longer valid. A caller that is refused too often has to wait."""
        with refusals_counted():
            given = self.input(NodeReportInput) if bearer(request) else {"stage": Stage.BOOTED}
            row = services.node_report(
                token=bearer(request), stage=Stage(given["stage"]), message=given.get("message", "")
            )
        return Response(NodeReportOutput(row).data, status=201)


@contextmanager
def refusals_counted() -> Iterator[None]:
    """Counts the refusals of one client network. Raises Throttled in place of too many; machines behind the same router, whose tokens
    are right, are never held up by somebody's guesses."""
    try:
        yield
    except Unauthorized:
        if wait := _refused.seconds_to_wait(current_request.get().network, most=REFUSED_MOST):
            raise exceptions.Throttled(wait=wait) from None
        raise


def bearer(request: Request) -> str:
    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    return raw.strip() if scheme.lower() == SCHEME else ""
