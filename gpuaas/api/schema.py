"""What OpenAPI says about an operation, and what the operation therefore accepts: one decorator for both."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from gpuaas.api.fields import Input, NoQuery, Output
from gpuaas.api.idempotency import HEADER, MARK

Handler = TypeVar("Handler", bound=Callable[..., Any])
QUERY = "query_serializer"


class ErrorBody(Output):
    code = serializers.CharField(help_text="Stable, for programs.")
    message = serializers.CharField(help_text="A sentence for people.")
    detail = serializers.DictField(help_text="Numbers and names, such as limit, used, asked.")
    fields = serializers.DictField(  # type: ignore[assignment]  # the shape's own word hides the class's property
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Fields of the input (dotted path) and what is wrong with them.",
    )
    request_id = serializers.CharField(allow_blank=True)


class Error(Output):
    error = ErrorBody()


QUOTA_EXAMPLE = OpenApiExample(
    "A limit would be exceeded",
    value={
        "error": {
            "code": "quota_exceeded",
            "message": "the project weather-lm may hold 8 H100 SXM 80 GB; 7 are used, 2 more were asked",
            "detail": {
                "scope": "project",
                "resource": "gpu:h100-sxm-80gb",
                "limit": 8,
                "used": 7,
                "asked": 2,
            },
            "request_id": "0b6cf8a3f9d84c55",
        }
    },
    status_codes=["409"],
    response_only=True,
)

SAYS = {
    400: "Malformed or invalid input.",
    401: "No valid credentials.",
    403: "The role or the token's scopes do not allow this, or the CSRF token is missing.",
    404: "Nothing at this address, or nothing that the caller may know of.",
    406: "Only JSON is offered here.",
    409: "Not possible now: a limit, no capacity, or the state of the thing.",
    412: "If-Match names a version that is no longer current.",
    413: "The request body is too large.",
    415: "The body must be application/json.",
    422: "The Idempotency-Key was used for another request.",
    429: "Too many requests were refused lately; see Retry-After.",
    502: "The site refused.",
    503: "The site does not answer now; see Retry-After.",
}
ALWAYS = (400, 401, 403, 404, 406)
WRITES = (409, 413, 415)
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag that must still be current."
)
IDEMPOTENCY = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Makes a repetition safe for 24 hours: same key and same request, same answer, done once.",
)


def operation(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    answer: Any = None,
    status: int = 200,
    body: type[Input] | None = None,
    query: type[Input] = NoQuery,
    also: tuple[int, ...] = (),
    versioned: bool = False,
    csv: bool = False,
    pdf: bool = False,
    parquet: bool = False,
    examples: tuple[OpenApiExample, ...] = (),
) -> Callable[[Handler], Handler]:
    """`answer` is a serializer class (or an OpenApiResponse), `also` more statuses than every operation has.

    `versioned`: a change that honors If-Match. The view refuses query parameters that `query` does not name.
    """

    def decorate(handler: Handler) -> Handler:
        parameters, refusals = _terms(handler, query=query, versioned=versioned)
        extended = extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=(handler.__doc__ or "").strip(),
            tags=[tag],
            request=body,
            responses=_responses(
                status, _file(csv=csv, pdf=pdf, parquet=parquet), answer, refusals | set(also)
            ),
            parameters=parameters,
            examples=[*examples, *((QUOTA_EXAMPLE,) if body else ())],
        )(handler)
        setattr(extended, QUERY, query)
        return extended

    return decorate


def _terms(handler: Callable[..., Any], *, query: type[Input], versioned: bool) -> tuple[list[Any], set[int]]:
    """The parameters besides the path's, and how it may refuse."""
    refusals = set(ALWAYS)
    parameters: list[Any] = [] if query is NoQuery else [query]
    if handler.__name__ != "get":
        refusals |= set(WRITES)
    if versioned:
        refusals.add(412)
        parameters.append(IF_MATCH)
    if getattr(handler, MARK, False):
        refusals.add(422)
        parameters.append(IDEMPOTENCY)
    return parameters, refusals


def _file(*, csv: bool, pdf: bool, parquet: bool) -> tuple[str, Any] | None:
    """Of answers that are no JSON: the media type, and what it is."""
    if csv:
        return "text/csv", OpenApiTypes.STR
    if parquet:
        return "application/vnd.apache.parquet", OpenApiTypes.BINARY
    return ("application/pdf", OpenApiTypes.BINARY) if pdf else None


def _responses(status: int, file: tuple[str, Any] | None, answer: Any, refusals: set[int]) -> dict[Any, Any]:
    """By status; refusals are always JSON."""
    good: Any = (status, file[0]) if file else status
    responses: dict[Any, Any] = {good: file[1] if file else answer or OpenApiResponse(description="Done.")}
    for number in sorted(refusals):
        responses[number, "application/json"] = OpenApiResponse(Error, description=SAYS[number])
    return responses


@cache
def page_of(row: type[Output]) -> type[Output]:
    """The envelope of a list of `row`."""
    name = row.__name__.removesuffix("Output") + "Page"
    return type(
        name,
        (Output,),
        {
            "next": serializers.URLField(allow_null=True, help_text="The next page; null on the last."),
            "results": row(many=True),
            "__module__": row.__module__,
        },
    )
