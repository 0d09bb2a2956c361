"""A system check: installed drivers that cannot be used. It stops no process that serves."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, register

from gpuaas.providers.registry import known


@register()
def drivers_usable(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    del app_configs, kwargs
    return [
        Error(
            f"the driver plug-in {name!r} was not loaded: {reason}",
            hint="repair or uninstall it; until then its sites do not answer, all others work",
            id="gpuaas.E008",
        )
        for name, reason in sorted(known().broken.items())
    ]
