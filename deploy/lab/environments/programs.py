"""What environments run, as programs of this machine and in the versions of the shipped images, installed once into a cache.

code-server is npm's package: its hash is here, and what it needs is pinned with hashes by the two locks in it. No script of any
package runs; what is native is compiled by node-gyp, which comes with npm.
"""

import base64
import hashlib
import shutil
import sys
from abc import ABC, abstractmethod
from pathlib import Path

from deploy.focus_validator import UV
from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import CACHE
from deploy.lab.gobuild import Report
from deploy.lab.locks import locked

EACH_MOST_S = 1800
REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements" / "tensorboard.txt"
VERSION, NODE = "4.100.3", 20
SHA512 = "q/Fh2DOxCRNhC/WiG/6sAhSKnj7ZACTVBaeeZ+rWjol//0FCbl/qg1ln5ecZ99jYcfqMxZZAyWcN+YBIo0DgpA=="
# folder of a package in the program's own, and what its build is told besides
NATIVE = {
    "node_modules/argon2": (
        "--module_name=argon2",
        "--module_path={folder}/lib/binding/napi-v3",
        "--napi_version=9",
        "--napi_build_version=3",
    ),
    "lib/vscode/node_modules/node-pty": (),
    "lib/vscode/node_modules/@vscode/spdlog": (),
    "lib/vscode/node_modules/native-watchdog": (),
}


class Program(ABC):
    """In the cache whole or not at all, so that finding it needs no lock."""

    title = ""

    def __init__(self, cache: Path | None = None) -> None:
        self.cache = cache or CACHE / "gpuaas-environments"

    @property
    @abstractmethod
    def folder(self) -> Path:
        """One for each list of pins."""

    @property
    @abstractmethod
    def command(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _install(self, half: Path) -> None:
        """All of it, below `half`."""

    def ensure(self, report: Report) -> None:
        """Of two first starts at once, one installs and the other waits for it. Raises LabError with the words that would mend it."""
        if self.folder.exists():
            return
        waiting = f"another start is installing {self.title}"
        lock = self.cache / f"{self.folder.name}.lock"
        with locked(lock, limit=EACH_MOST_S, waiting=lambda: report(waiting)):
            if not self.folder.exists():
                report(f"installing {self.title}, once: 1 to 4 minutes")
                half = self.folder.with_name(f"{self.folder.name}.half")
                shutil.rmtree(half, ignore_errors=True)
                half.mkdir(parents=True)
                self._install(half)
                half.rename(self.folder)


class TensorBoard(Program):
    title = "TensorBoard"

    @property
    def folder(self) -> Path:
        return self.cache / f"tensorboard-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]}"

    @property
    def command(self) -> tuple[str, ...]:
        """By its module: scripts know the folder in which they were made."""
        return str(self.folder / "bin" / "python"), "-m", "tensorboard.main"

    def _install(self, half: Path) -> None:
        output_of(str(UV), "venv", "--quiet", "--python", sys.executable, str(half))
        python = str(half / "bin" / "python")
        words = ("--quiet", "--python", python, "--require-hashes", "-r", str(REQUIREMENTS))
        output_of(str(UV), "pip", "install", *words, limit=EACH_MOST_S)


class CodeServer(Program):
    title = "code-server"

    @property
    def folder(self) -> Path:
        return self.cache / f"code-server-{VERSION}-{hashlib.sha256(SHA512.encode()).hexdigest()[:16]}"

    @property
    def command(self) -> tuple[str, ...]:
        return _found("node"), str(self.folder / "out" / "node" / "entry.js")

    def _install(self, half: Path) -> None:
        version = output_of(_found("node"), "--version").strip()
        if int(version.removeprefix("v").partition(".")[0]) < NODE:
            raise LabError(f"code-server {VERSION} needs Node.js {NODE} or newer, and here is {version}")
        output_of(_found("npm"), "pack", "--silent", f"code-server@{VERSION}", folder=half, limit=EACH_MOST_S)
        packed = half / f"code-server-{VERSION}.tgz"
        if base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode() != SHA512:
            raise LabError(f"npm's code-server {VERSION} is not what it was")
        output_of("tar", "--extract", "--strip-components=1", f"--file={packed}", folder=half)
        packed.unlink()
        quiet = ("--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
        # its inner lock leaves out what is there only for others
        for folder, more in ((half, ()), (half / "lib" / "vscode", ("--legacy-peer-deps",))):
            output_of(_found("npm"), "ci", *quiet, *more, folder=folder, limit=EACH_MOST_S)
        for name, told in NATIVE.items():
            _compile(half / name, told)
        # as its own script would: some of it looks for files there
        (half / "lib" / "vscode" / "node_modules.asar").symlink_to("node_modules")


def _compile(folder: Path, told: tuple[str, ...]) -> None:
    """Node's own headers, where the system has them: else node-gyp asks nodejs.org for them."""
    modules = Path(output_of(_found("npm"), "root", "--global").strip())
    gyp = str(modules / "npm" / "node_modules" / "node-gyp" / "bin" / "node-gyp.js")
    headers = Path(_found("node")).resolve().parents[1]
    known = (f"--nodedir={headers}",) if (headers / "include" / "node" / "node.h").exists() else ()
    words = [each.format(folder=folder) for each in told]
    output_of(_found("node"), gyp, "rebuild", *known, *words, folder=folder, limit=EACH_MOST_S)


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise LabError(f"{name} is missing: code-server {VERSION} needs Node.js {NODE} or newer with npm")
    return str(Path(path).absolute())
