"""What stands for the pod of an environment: `python -m tests.bench.pod PORT CERTIFICATE KEY` answers every request at once with the same
page, over connections that are kept, and by TLS at another port, which it writes."""

import asyncio
import contextlib
import ssl
import sys

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


async def main(port: str, certificate: str, key: str) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    plain = await asyncio.start_server(_answer, "127.0.0.1", int(port))
    secure = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=tls)
    print(secure.sockets[0].getsockname()[1], flush=True)
    await asyncio.gather(plain.serve_forever(), secure.serve_forever())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
