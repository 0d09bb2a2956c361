"""What was built is summed up and signed, so that whoever installs it can tell that it is ours and whole.

The sums are as `sha256sum` writes them, the signature as `ssh-keygen -Y sign` does (OpenSSH, PROTOCOL.sshsig): both are
checked with programs that every Linux machine has.
"""

import hashlib
import subprocess
from pathlib import Path

from deploy.image.errors import ImageError

SUMS = "SHA256SUMS"
NAMESPACE = "gpuaas-release"  # so that the same key's signatures of other things do not pass for ours
PARTS = ("gpuaas-*.whl", "gpuaas-*.tar", "gpuaas-*.cdx.json")


def sign(folder: Path, key: Path) -> Path:
    """Writes the sums of the wheel, the image and its bill of materials, and their signature, which is returned. `key`: a
    private key of OpenSSH, or a public one whose private half an agent has. Raises ImageError where a part is missing or
    there are several versions of one, and where the key does not sign."""
    found = [_only(folder, pattern) for pattern in PARTS]
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(found)]
    sums, signature = folder / SUMS, folder / f"{SUMS}.sig"
    sums.write_text("".join(lines), encoding="utf-8")
    signature.unlink(missing_ok=True)
    words = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ImageError("signing needs ssh-keygen (Debian: apt install openssh-client)") from error
    if done.returncode or not signature.exists():
        raise ImageError(f"the key does not sign: {done.stderr.strip()}")
    return signature


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        what = ", ".join(path.name for path in found) or "nothing"
        raise ImageError(
            f"{folder} must have exactly one {pattern}, and has {what}: `make package image` first"
        )
    return found[0]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
