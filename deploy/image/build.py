"""Builds the image: three layers, of which the lower two are kept until what they are made of changes."""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.image import checkout, debian, oci, python, sbom
from deploy.image.debian import USER
from deploy.image.runtime import PACKAGES, Runtime
from deploy.lab.files import CACHE
from deploy.lab.gobuild import BUILD_LIMIT_S
from deploy.lab.locks import locked
from gpuaas import __version__

HERE = Path(__file__).parent
CONFIG = {
    "User": f"{USER}:{USER}",
    "Env": [
        "PATH=/usr/local/bin:/usr/bin",
        "LANG=C.UTF-8",
        "HOME=/tmp",
        "DJANGO_SETTINGS_MODULE=gpuaas.settings.production",
        f"GPUAAS_STATIC_ROOT=/{python.STATIC}",
        f"SSL_CERT_FILE=/{debian.BUNDLE}",
        f"GPUAAS_POSTGRES_PROGRAMS=/{python.CLIENTS_FOLDER}",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ],
    "Entrypoint": ["gpuaas-portal"],
    "Cmd": ["web"],
    "ExposedPorts": {"8000/tcp": {}},
    "WorkingDir": "/tmp",
    "StopSignal": "SIGTERM",
}
KEPT = 2  # for another branch beside this one
Report = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    archive: Path
    bill: Path
    name: str
    digest: str


def build(folder: Path, *, name: str, report: Report, cache: Path | None = None) -> Built:
    """Writes the archive and its bill of materials into `folder`. name: without tag, as containerd is to store the image.

    Raises ImageError, and LabError where another build takes too long.
    """
    kept = cache or CACHE / "gpuaas-image"
    with locked(
        kept / ".lock", limit=BUILD_LIMIT_S, waiting=lambda: report("nothing yet: another build does")
    ):
        base, libraries, archives = _lower(kept, report)
        time, version = checkout.epoch(), __version__
        labels = _labels(version, checkout.revision())
        with tempfile.TemporaryDirectory(dir=kept) as work:
            report("the portal")
            own = Path(work, "portal")
            python.portal(own, Runtime(base), checkout.wheel(Path(work)), libraries)
            _named_python3(own)
            layers = [
                oci.Layer(base, "Debian 12: what Python, the libraries and PDFs need"),
                oci.Layer(libraries, " ".join(f"requirements/{lock.name}" for lock in python.LOCKS)),
                oci.Layer(own, f"gpuaas {version}", time),
            ]
            report("the archive")
            archive = folder / f"gpuaas-{version}.tar"
            image = oci.Image(f"{name}:{version}", layers, {**CONFIG, "Labels": labels}, time, labels)
            digest = oci.write(image, archive)
        bill = folder / f"gpuaas-{version}.cdx.json"
        found = debian.packages(archives, base)
        bill.write_text(sbom.document(version=version, time=time, debian=found, python=libraries / PACKAGES))
    return Built(archive, bill, image.name, digest)


def _named_python3(root: Path) -> None:
    """The name by which the chart's probes call it, whatever its version is."""
    link = root / "usr/bin/python3"
    link.parent.mkdir(parents=True)
    link.symlink_to("python3.11")


def _lower(kept: Path, report: Report) -> tuple[Path, Path, list[debian.Archive]]:
    """The folders of the two lower layers, and what the first is made of."""
    archives = debian.fetch(kept / "debian")
    recipes = "".join((HERE / part).read_text() for part in ("debian.py", "runtime.py"))
    made_of = repr([(one.name, one.sha256) for one in archives]) + recipes
    base = _kept(kept, "base", made_of, report, lambda root: _base(archives, root))
    made_of += (HERE / "python.py").read_text() + "".join(lock.read_text() for lock in python.LOCKS)
    made_of += python.clients_lock()
    libraries = _kept(
        kept, "libraries", made_of, report, lambda root: python.distributions(root, Runtime(base))
    )
    return base, libraries, archives


def _base(archives: list[debian.Archive], root: Path) -> None:
    debian.unpack(archives, root)
    Runtime(root).compile(root, "usr/lib/python3.11")


def _kept(cache: Path, name: str, made_of: str, report: Report, make: Callable[[Path], None]) -> Path:
    """The folder that was made of the same before, else a new one; of others of this name, the newest are kept."""
    folder = cache / f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    if not folder.exists():
        report(f"the layer {name}")
        others = sorted(cache.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[KEPT:]:
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            root = Path(work, "root")
            root.mkdir()
            make(root)
            root.rename(folder)
    return folder


def _labels(version: str, revision: str) -> dict[str, str]:
    told = {"title": "gpuaas", "version": version, "revision": revision, "licenses": "Apache-2.0"}
    return {f"org.opencontainers.image.{key}": value for key, value in told.items()}
