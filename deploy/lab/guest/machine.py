"""One machine: a container with a systemd of its own, on a copy of the image that ends with it."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from deploy.lab.guest import network
from deploy.lab.guest.wishes import Wish
from deploy.lab.processes import Process

CGROUPS = tuple(Path("/sys/fs/cgroup", name) for name in ("", "systemd", "unified"))
ENTER = """\
for tree in $TREES; do
  mkdir "$tree/$NAME" && echo 0 > "$tree/$NAME/cgroup.procs" || exit
done
upper=$HERE
if [ "$DISK" != 0 ]; then
  upper=$HERE/disk
  mount --types tmpfs --options "size=${DISK}m" tmpfs "$upper" &&
  cp --recursive "$HERE/changes" "$upper" && mkdir "$upper/work" || exit
fi
mount --types overlay overlay --options "lowerdir=$IMAGE,upperdir=$upper/changes,workdir=$upper/work" "$HERE/root" &&
while :; do
  systemd-nspawn --directory="$HERE/root" --boot --register=no --keep-unit --machine="$NAME" --hostname=debian \
    --network-namespace-path="/run/netns/$NAME" --bind="$HOMES:/home" --resolv-conf=off --timezone=off --link-journal=no \
    --console=pipe --bind="$HERE/written:/dev/console" --capability=all --setenv=product_name='OpenStack Nova'
  [ $? = 133 ] || exit # 133: it is to boot again
done
"""
GONE_S = 10.0
BOOT = "/proc/sys/kernel/random/boot_id"
CARD = "c /dev/nvidia{number} 0666 - - - 195:{number}\n"


class Machine:
    """homes: what all machines of a network have at /home."""

    def __init__(self, folder: Path, wish: Wish, *, lab: str, image: Path, homes: Path) -> None:
        self.wish = wish
        self.namespace, self._hub = network.machine_name(wish.uuid, lab), network.hub_name(wish.network, lab)
        self._folder, self._image, self._homes = folder, image, homes
        self._process = Process(folder, "console")

    @property
    def console(self) -> Path:
        """What was last written to its /dev/console, which is a file here."""
        return self._folder / "written"

    def start(self, *, disk_mib: int = 0) -> None:
        for name in ("changes/usr/lib/tmpfiles.d", "work", "disk", "root"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self.console.touch()
        cards = "".join(CARD.format(number=number) for number in range(self.wish.gpus))
        (self._folder / "changes/usr/lib/tmpfiles.d/cards.conf").write_text(cards)
        self._homes.mkdir(parents=True, exist_ok=True)
        network.card_plug(self.namespace, self._hub, self.wish.address)
        around = {
            "PATH": os.environ.get("PATH", os.defpath),
            "IMAGE": str(self._image),
            "HERE": str(self._folder),
            "NAME": self.namespace,
            "HOMES": str(self._homes),
            "DISK": str(disk_mib),
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",  # as on a machine with a kernel of its own
            "TREES": " ".join(map(str, _trees())),
        }
        self._process.start([*_alone(), "sh", "-c", ENTER], around)

    def unplug(self) -> None:
        """Its network."""
        network.card_cut(self.namespace, self._hub)

    def stop(self) -> None:
        """As if its plug were pulled; nothing of it stays."""
        self._process.stop(kill=True)
        network.namespace_remove(self.namespace)
        for tree in _trees():
            _remove(tree / self.namespace)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Inside of it, as root."""
        leader = self._leader()
        inside = ["nsenter", "--target", str(leader), "--all", "--", *command]
        return subprocess.run(inside, check=False, capture_output=True, text=True)

    def reboot(self) -> str:
        """By its own systemd. Returns what `boot` was before."""
        before = self.boot()
        self.run("systemctl", "--no-block", "reboot")
        return before

    def boot(self) -> str:
        """Another value each time that it has booted, and nothing while it is down."""
        try:
            return self.run("cat", BOOT).stdout.strip()
        except ProcessLookupError:
            return ""

    def _leader(self) -> int:
        """The systemd of the container: the first below what was started that is the first of its own processes, two levels deep."""
        found = self._process.pid()
        while found is not None:
            children = Path(f"/proc/{found}/task/{found}/children").read_text().split()
            if not children:
                raise ProcessLookupError(f"{self.wish.name} does not run")
            found = int(children[0])
            status = Path(f"/proc/{found}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            if len(numbers) > 2 and numbers[-1] == "1":
                return found
        raise ProcessLookupError(f"{self.wish.name} does not run")


def _trees() -> list[Path]:
    """Where a systemd keeps its groups of processes: of the first version of cgroups, of the second, or of both."""
    return [tree for tree in CGROUPS if (tree / "cgroup.procs").exists()]


def _remove(group: Path) -> None:
    """As soon as the last of its processes is gone."""
    end = time.monotonic() + GONE_S
    below = (path for path in group.rglob("*") if path.is_dir())
    for path in [*sorted(below, reverse=True), group]:
        while path.exists():
            try:
                path.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def _alone() -> list[str]:
    """It ends with whoever started it, all that it started ends with it, and its mounts are seen by nobody else."""
    setpriv, unshare = shutil.which("setpriv"), shutil.which("unshare")
    own = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [str(setpriv), "--pdeathsig", "KILL", str(unshare), *own]
