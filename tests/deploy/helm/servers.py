"""PostgreSQL and Redis of Debian as one image for the node, in place of those that the chart would pull."""

import hashlib
import tempfile
from pathlib import Path

from deploy.lab.commands import LIMIT_S, output_of
from deploy.lab.files import CACHE
from deploy.lab.locks import locked
from deploy.lab.node import images

NAME, USER = "servers", 999
# What their programs load, and a shell; what apt would install besides starts services.
PACKAGES = (
    *("busybox-static", "libc6", "libc-bin", "tzdata", "postgresql-15", "postgresql-client-15", "libpq5"),
    *("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1", "libgcc-s1", "libstdc++6"),
    *("libicu72", "libxml2", "liblzma5", "zlib1g", "liblz4-1", "libzstd1", "libssl3", "libuuid1"),
    *("libreadline8", "libtinfo6", "libsystemd0", "libcap2", "libgcrypt20", "libgpg-error0", "libselinux1"),
    *("libpcre2-8-0", "libpam0g", "libaudit1", "libcap-ng0", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3"),
    *("libkrb5support0", "libcom-err2", "libkeyutils1", "libldap-2.5-0", "libsasl2-2", "libgnutls30"),
    *("libhogweed6", "libnettle8", "libgmp10", "libidn2-0", "libunistring2", "libp11-kit0", "libtasn1-6"),
    "libffi8",
)
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/lib/postgresql/15/lib/bitcode")


def image() -> Path:
    """Its archive, made once."""
    made_of = hashlib.sha256(repr((PACKAGES, LEFT_OUT)).encode()).hexdigest()[:16]
    archive = CACHE / "gpuaas-helm-bin" / f"{NAME}-{made_of}.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with locked(archive.with_suffix(".lock"), limit=LIMIT_S):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as work:
                images.pack(unpacked(Path(work)), archive)
    return archive


def unpacked(folder: Path) -> images.Image:
    root = folder / "root"
    root.mkdir()
    here = ("sh", "-c", 'cd "$0" && apt-get -qq -o APT::Sandbox::User=root download "$@"', str(folder))
    output_of("apt-get", "-qq", "update")
    output_of(*here, *PACKAGES)
    for package in sorted(folder.glob("*.deb")):
        output_of("dpkg-deb", "--extract", str(package), str(root))
    output_of("rm", "-rf", *(str(root / path) for path in LEFT_OUT))
    for applet in ("sh", "cat", "mv", "rm", "sleep"):
        (root / "bin" / applet).symlink_to("busybox")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(f"root:x:0:0::/:/bin/sh\nserver:x:{USER}:{USER}::/tmp:/bin/sh\n")
    (root / "etc/group").write_text(f"root:x:0:\nserver:x:{USER}:\n")
    return images.Image(NAME, root, {"Env": ["PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin"]})
