"""Names that Linux and Slurm take, made from those of the portal. Pure."""

import re
import unicodedata
from collections.abc import Collection
from itertools import count

LOGIN_MAX = 32  # of Linux; names that are made here are shorter, with room for a number
STEM_MAX = 24
UIDS, LAST_UID = 20_001, 59_999  # below them are the system's own, above them systemd's
# accounts and groups of Debian, Ubuntu and what their packages make, and folders that stand beside homes
WORDS = """
    root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm tty
    disk kmem dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev staff users
    input sgx kvm render netdev crontab ssh sshd wheel messagebus polkitd uuidd tcpdump landscape pollinate
    syslog statd rpc rpcuser nfsnobody mysql mariadb postgres redis mongodb munge slurm slurmdbd slurmrestd tenant
    debian ubuntu admin administrator cloud docker podman containerd lxd lxc libvirt nvidia dcgm nvidia-persistenced
    fabricmanager prometheus grafana node-exporter telegraf postfix dovecot ntp chrony avahi dnsmasq tss lpadmin
    members shared apps systemd home lost-found gpuaas portal all default none unknown
"""
RESERVED = frozenset(WORDS.split())
FOREIGN = ("systemd-", "gpuaas-", "slurm-", "nvidia-")  # of names to come


def login_name(username: str, taken: Collection[str]) -> str:
    """Lower-case letters, digits and hyphens, and begins with a letter; neither one of `taken` nor one that a system
    uses. Of an address it is what is before the @. A number follows where somebody else has the name."""
    stem = _stem(username)
    names = (f"{stem}-{number}" for number in count(2))
    return stem if stem not in taken else next(name for name in names if name not in taken)


def _stem(username: str) -> str:
    plain = unicodedata.normalize("NFKD", username.partition("@")[0].casefold())
    ascii_only = "".join(letter for letter in plain if not unicodedata.combining(letter))
    words = re.sub(r"[^a-z0-9]+", "-", ascii_only)[:STEM_MAX].strip("-")
    if not words:
        return "user"
    foreign = words in RESERVED or words.startswith(FOREIGN)
    return words if words[0].isalpha() and not foreign else f"u-{words}"
