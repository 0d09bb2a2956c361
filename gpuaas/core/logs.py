"""Structured logs: one event per line, JSON outside development, secrets masked.

Each line of a web request has its `request_id`; each line of a task its `task_id`, its name, and the id of the request
that sent it; each line of a visit or another claim the row that is worked on (`row`: "workspace:<id>").
"""

import logging
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

SECRET_WORDS = (
    "password",
    "secret",
    "token",
    "credential",
    "authorization",
    "kubeconfig",
    "clouds_yaml",
    "cookie",
    "api_key",
)
MASK = "***"


def mask_secrets(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """The value of a key whose name sounds like a secret is masked, whoever logged it and however deeply it is
    nested."""
    masked: EventDict = _masked(event)
    return masked


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: MASK if _sounds_secret(key) else _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(each) for each in value]
    return value


def _sounds_secret(key: object) -> bool:
    return isinstance(key, str) and any(word in key.lower() for word in SECRET_WORDS)


def name_request(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """What Django says of a request after its last middleware still has the id of that request."""
    request = getattr(event.get("_record"), "request", None)
    if request_id := getattr(request, "request_id", ""):
        event.setdefault("request_id", request_id)
    return event


class NotSick(logging.Filter):
    """Health addresses answer 503 to whoever asks, every few seconds; that is their answer and no error of theirs."""

    def filter(self, record: logging.LogRecord) -> bool:
        path = getattr(getattr(record, "request", None), "path", "")
        return not (path.startswith("/health/") and getattr(record, "status_code", 0) == 503)


def logging_config(*, level: str, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING: our events and those of libraries go through the same processors."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        name_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.format_exc_info,
                    renderer,
                ],
                "foreign_pre_chain": shared,
            }
        },
        "filters": {"not_sick": {"()": NotSick}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": []},  # Django's own would say it a second time, and without the mask
            "django.request": {"filters": ["not_sick"]},
            "uvicorn.access": {"level": "WARNING"},
            "kubernetes": {"level": "WARNING"},
        },
    }
