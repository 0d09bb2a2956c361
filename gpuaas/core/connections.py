"""Connections to the database in processes that run for long."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection

Given = ParamSpec("Given")
Done = TypeVar("Done")
# of one party outside: what hangs there fills its own threads
THREADS_OF_ONE: Final = 4
_threads: dict[str, ThreadPoolExecutor] = {}


def connection_return() -> None:
    """Back to the pool between two pieces of work: there may be more sites than connections."""
    if not connection.in_atomic_block:
        close_old_connections()


def returning(do: Callable[Given, Done]) -> Callable[Given, Done]:
    """`do`, for a thread that no request ends in: the connection that it needed goes back to the pool with it.

    Behind ASGI, Django calls the handlers of errors in such threads (`convert_exception_to_response`), of which there are more
    than connections.
    """

    @wraps(do)
    def work(*given: Given.args, **named: Given.kwargs) -> Done:
        try:
            return do(*given, **named)
        finally:
            connection_return()

    return work


async def in_thread(do: Callable[Given, Done], /, *given: Given.args, **named: Given.kwargs) -> Done:
    """What `do` returns, from a loop."""
    return await sync_to_async(returning(do), thread_sensitive=False)(*given, **named)


async def in_thread_of(
    whose: str, do: Callable[Given, Done], /, *given: Given.args, **named: Given.kwargs
) -> Done:
    """The same in one of the few threads of a party outside, such as a site. Without an answer from there its own calls wait, and
    nothing else does."""
    threads = _threads.setdefault(whose, ThreadPoolExecutor(THREADS_OF_ONE))
    return await sync_to_async(returning(do), thread_sensitive=False, executor=threads)(*given, **named)
