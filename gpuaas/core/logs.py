"""Structured logs: one event per line, JSON outside development, the request id on each, secrets masked."""

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
    """A key whose name sounds like a secret never shows its value, whoever logged it and however deep it lies."""
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


def logging_config(*, level: str, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING: our events and those of libraries go through the same processors."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
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
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": []},  # Django's own would say it a second time, and without the mask
            "uvicorn.access": {"level": "WARNING"},
            "kubernetes": {"level": "WARNING"},
        },
    }
