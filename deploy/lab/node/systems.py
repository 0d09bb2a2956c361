"""Images of Debian's packages with all that they depend on, such as a tenant's own image is. No script of a package runs."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.debian import unpack_whole
from deploy.lab.errors import LabError
from deploy.lab.node.images import PATHS, Image

ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n",
    "group": "root:x:0:\nuser:x:1000:\n",
}
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/icons")


@dataclass(frozen=True)
class System:
    """suite: the release of Debian. links: what the scripts of the packages choose among alternatives, by its place. libraries:
    folders with such. variables: of the image. mends: of files, a text, and what stands in its
    place."""

    packages: tuple[str, ...]
    suite: str = "bookworm"
    links: dict[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    mends: dict[str, tuple[str, str]] = field(default_factory=dict)


TORCH = "usr/lib/python3/dist-packages/torch/distributed"
BASE = ("base-files", "dash", "coreutils", "hostname", "libc-bin", "procps")
SYSTEMS = {
    # mpirun is OpenMPI's, mpiexec.hydra MPICH's
    "mpi": System(
        (*BASE, "openssh-server", "openmpi-bin", "python3-mpi4py", "mpich"),
        links={"usr/bin/mpirun": "mpirun.openmpi"},
    ),
    # that of Debian 12 does not know the Python beside it, and this one has no libuv, which it would look for
    "torch": System(
        (*BASE, "python3-torch", "libblas3", "liblapack3"),
        suite="trixie",
        libraries=("blas", "lapack"),
        variables=("USE_LIBUV=0",),
        mends={
            f"{TORCH}/elastic/rendezvous/static_tcp_rendezvous.py": (
                "multi_tenant=True,",
                "multi_tenant=True, use_libuv=False,",
            ),
            f"{TORCH}/rendezvous.py": (
                "            is_master=False,\n",
                "            is_master=False, use_libuv=False,\n",
            ),
        },
    ),
}


def image_of(name: str, root: Path) -> Image:
    """root: where its files are put, which is not there yet."""
    system = SYSTEMS[name]
    unpack_whole(system.packages, root, suite=system.suite)
    for each in UNUSED:
        shutil.rmtree(root / each, ignore_errors=True)
    for place, target in system.links.items():
        (root / place).symlink_to(target)
    for place, (old, new) in system.mends.items():
        text = (root / place).read_text()
        if old not in text:
            raise LabError(f"{place} of the image {name} has no {old}, so what mends it is out of date")
        (root / place).write_text(text.replace(old, new))
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for file, lines in ACCOUNTS.items():
        (root / "etc" / file).write_text(lines)
    folders = [path for each in system.libraries for path in sorted(root.glob(f"usr/lib/*-linux-gnu/{each}"))]
    lines = "".join(f"/{path.relative_to(root)}\n" for path in folders)
    (root / "etc/ld.so.conf.d/chosen.conf").write_text(lines)
    output_of("ldconfig", "-r", str(root))
    return Image(name, root, {"Cmd": ["sh"], "Env": [PATHS, *system.variables]})
