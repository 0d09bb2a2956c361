"""What OpenAPI says about an operation, and therefore what the operation accepts: one decorator for both."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers

from gpuaas.api.fields import Input, NoQuery, Output, PageQuery
from gpuaas.api.idempotency import HEADER, MARK
from gpuaas.api.permissions import need_of

Handler = TypeVar("Handler", bound=Callable[..., Any])
QUERY = "query_serializer"
OPERATION = "operation_id"


class ErrorBody(Output):
    code = serializers.CharField(help_text="Stable code for programs.")
    message = serializers.CharField(help_text="A sentence for people.")
    detail = serializers.DictField(help_text="Numbers and names, such as limit, used, asked.")
    fields = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Fields of the input (dotted paths) with their errors.",
    )
    request_id = serializers.CharField(allow_blank=True)


class Error(Output):
    error = ErrorBody()


QUOTA_EXAMPLE = OpenApiExample(
    "A limit would be exceeded",
    value={
        "error": {
            "code": "quota_exceeded",
            "message": "Project weather-lm may hold at most 8 h100-sxm-80gb GPUs. Held: 7. Requested: 2. Available: 1. Request "
            "fewer, free some, or ask an operator to raise the limit.",
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
    400: "The input is malformed or invalid.",
    401: "No valid credentials.",
    403: "The role or the token's scopes do not allow this, or the CSRF token is missing.",
    404: "Nothing is at this address, or the caller may not know of it.",
    406: "Only JSON is available here.",
    409: "Not possible now: a limit, no capacity, or the present state.",
    412: "If-Match names a version that is no longer current.",
    413: "The request body is too large.",
    415: "The body is of a type that the operation does not take.",
    422: "The Idempotency-Key was used for another request.",
    429: "Too many requests or downloads at once; see Retry-After.",
    502: "The site refused the request.",
    503: "The site does not answer now; see Retry-After.",
}
ALWAYS = (400, 401, 403, 404, 406)
WRITES = (409, 413, 415)
FILES: dict[str, tuple[str, Any]] = {
    "csv": ("text/csv", OpenApiTypes.STR),
    "pdf": ("application/pdf", OpenApiTypes.BINARY),
    "yaml": ("application/yaml", OpenApiTypes.OBJECT),
    "any": ("application/octet-stream", OpenApiTypes.BINARY),
    "parquet": ("application/vnd.apache.parquet", OpenApiTypes.BINARY),
}
IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="An ETag whose version must still be current."
)
IDEMPOTENCY = OpenApiParameter(
    HEADER,
    str,
    OpenApiParameter.HEADER,
    description=(
        "Makes a repetition safe for 24 hours: the same key with the same request gets the same answer "
        "and is executed once."
    ),
)


def operation(
    operation_id: str,
    summary: str,
    *,
    body: type[Input] | None = None,
    query: type[Input] | None = None,
    answer: type[Output] | None = None,
    created: type[Output] | None = None,
    accepted: type[Output] | None = None,
    rows: type[Output] | None = None,
    also: tuple[int, ...] = (),
    versioned: bool = False,
    file: str = "",
    sends: str = "",
    examples: tuple[OpenApiExample, ...] = (),
) -> Callable[[Handler], Handler]:
    """`answer` (200), `created` (201), `accepted` (202) or a page of `rows`: what is sent back. None of them: 204.

    The view refuses query parameters that `query` does not name. `also` lists statuses beyond those of every
    operation. `versioned`: a change that honors If-Match. file: one of FILES, sent in place of JSON; sends: taken."""
    asked = query or (PageQuery if rows else NoQuery)
    sent = page_of(rows) if rows else answer or created or accepted
    status = 201 if created else 202 if accepted else 200 if sent or file else 204

    def decorate(handler: Handler) -> Handler:
        parameters, refusals = _terms(handler, query=asked, versioned=versioned)
        extended = extend_schema(
            operation_id=operation_id,
            summary=summary,
            **_described(handler, operation_id),
            request=dict([FILES[sends]]) if sends else body,
            responses=_responses(status, FILES.get(file), sent, refusals | set(also)),
            parameters=parameters,
            examples=[*examples, *((QUOTA_EXAMPLE,) if body else ())],
        )(handler)
        setattr(extended, QUERY, asked)
        setattr(extended, OPERATION, operation_id)
        return extended

    return decorate


def _described(handler: Callable[..., Any], operation_id: str) -> dict[str, Any]:
    """The operation's description from the handler's docstring, and what it needs: as text and as extensions for
    programs.

    Raises TypeError for a handler without a docstring: the document would publish the docstring of its class.
    """
    text, need = inspect.cleandoc(handler.__doc__ or ""), need_of(operation_id, handler.__name__)
    if not text:
        raise TypeError(
            f"the operation {operation_id} needs a docstring: it is its description in the OpenAPI document"
        )
    if need is None:
        return {"description": text}
    permissions = [permission.value for permission in need.permissions]
    return {
        "description": f"{text}\n\n{need}".strip(),
        "extensions": {"x-permissions": permissions, "x-for-tokens": need.for_tokens},
    }


def _terms(handler: Callable[..., Any], *, query: type[Input], versioned: bool) -> tuple[list[Any], set[int]]:
    """Query parameters and headers, and the statuses with which the operation may refuse."""
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


def _responses(status: int, file: tuple[str, Any] | None, answer: Any, refusals: set[int]) -> dict[Any, Any]:
    """Responses by status; refusals are always JSON."""
    good: Any = (status, file[0]) if file else status
    refusals |= {429} if file else set()
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
            "next": serializers.URLField(
                allow_null=True, help_text="Address of the next page; null on the last one."
            ),
            "results": row(many=True),
            "__module__": row.__module__,
        },
    )
