"""What stands for the pod of an environment: `python -m tests.bench.pod` writes its port, and answers every request with the same
page, over connections that are kept."""

import asyncio
import contextlib

SIZE = 16 << 10
BODY = b"." * SIZE
ANSWER = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {SIZE}\r\n\r\n".encode() + BODY


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
            await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
