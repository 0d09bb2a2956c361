"""`python relay.py HOST PORT TARGET`: connections to HOST:PORT are led on to port TARGET of the loopback, where the API server is.

It is a program of its own, which imports nothing of ours: the node reaches this machine only at HOST."""

import asyncio
import contextlib
import sys

BLOCK = 1 << 16
BRIEFLY = 0.2  # seconds until it tries again to listen at an address that is not there yet


async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
    except OSError:
        writer.transport.abort()
        return
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()


async def lead_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target)
    except OSError:
        writer.transport.abort()
        return
    try:
        await asyncio.gather(one_way(reader, there_writer), one_way(there_reader, writer))
    finally:
        for end in (writer, there_writer):
            end.close()


async def main(host: str, port: int, target: int) -> None:
    while True:
        try:
            server = await asyncio.start_server(lambda r, w: lead_on(r, w, target), host, port)
        except OSError as error:
            print(error, flush=True)
            await asyncio.sleep(BRIEFLY)
            continue
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
