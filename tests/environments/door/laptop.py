"""Somebody's laptop with the client of OpenSSH: how it comes in by the door."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from gpuaas.environments.door.hostkey import host_key
from gpuaas.environments.models import SshKey
from gpuaas.workspaces.machines.keys import keypair_add
from tenants.models import User
from tenants.selectors import actor_for


@dataclass(frozen=True)
class Laptop:
    """Somebody's, with a private key in a folder of its own."""

    folder: Path
    port: int

    @property
    def public(self) -> str:
        return (self.folder / "id.pub").read_text().strip()

    def command(self, label: str, *words: str, options: tuple[str, ...] = ()) -> list[str]:
        given = [
            "StrictHostKeyChecking=yes",
            f"UserKnownHostsFile={self.folder / 'known'}",
            "IdentitiesOnly=yes",
        ]
        given += ["BatchMode=yes", "ConnectTimeout=20", "LogLevel=INFO"]
        flags = [word for each in given for word in ("-o", each)]
        place = ["-F", "none", "-i", str(self.folder / "id"), "-p", str(self.port)]
        return ["ssh", *place, *flags, *options, f"{label}@127.0.0.1", *words]

    def asks(
        self, label: str, *words: str, given: bytes = b"", options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[bytes]:
        command = self.command(label, *words, options=options)
        return subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)

    def answered(self, label: str, port: int, request: bytes) -> bytes:
        """The first line that comes back by a forwarded port, which stays open meanwhile."""
        command = self.command(label, options=("-W", f"localhost:{port}"))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as way:
            assert way.stdin is not None
            assert way.stdout is not None
            try:
                way.stdin.write(request)
                way.stdin.flush()
                return way.stdout.readline()
            finally:
                way.kill()


def laptop_of(user: User | None, port: int, folder: Path) -> Laptop:
    """Its public key is the person's; it knows the key of the door."""
    folder.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
    laptop = Laptop(folder, port)
    if user is not None:
        keypair_add(actor=actor_for(user=user), name="laptop", public_key=laptop.public)
    host_key()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {SshKey.objects.get().public}\n")
    return laptop
