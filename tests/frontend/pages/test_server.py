"""The portal of the tests ends, whatever a browser that stays open has begun meanwhile."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn

from tests.frontend.pages.server import Quiet, free_port


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("nothing is asked")


@pytest.mark.parametrize("rounds", range(4))
def test_a_connection_that_is_being_taken_does_not_keep_it(rounds: int) -> None:
    """A browser connects ahead of what it will ask; `rounds` of the loop later it ends. uvicorn itself waits for one that it
    has accepted and not yet counted."""

    async def ended() -> None:
        port = free_port()
        config = uvicorn.Config(nobody, port=port, log_level="error", lifespan="off")
        config.load()
        server = Quiet(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        with socket.create_connection(("127.0.0.1", port)):
            for _ in range(rounds):
                await asyncio.sleep(0)
            await asyncio.wait_for(server.shutdown(), 5)

    asyncio.run(ended())
