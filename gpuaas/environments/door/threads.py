"""The database from a loop: in a thread, whose connection goes back to the pool."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from gpuaas.core.connections import returning

Given = ParamSpec("Given")
Done = TypeVar("Done")


async def in_thread(do: Callable[Given, Done], /, *given: Given.args, **named: Given.kwargs) -> Done:
    return await sync_to_async(returning(do), thread_sensitive=False)(*given, **named)
