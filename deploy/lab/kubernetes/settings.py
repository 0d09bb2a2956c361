"""Where the lab keeps its things, and what a person chose for it; the choices outlive the process."""

import dataclasses
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from deploy.lab.base import Choices
from deploy.lab.files import CACHE

HERE = Path(__file__).parent
DEFAULT_STATE_DIR = CACHE / "gpuaas-kubernetes-lab"
DEFAULT_PORT_BASE = 23000  # below the ports that the kernel gives to outgoing connections
SERVER = re.compile(r"""["']?server["']?:\s*["']?(https?://[^\s"',}]+)""")
LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1")
ADMISSION_PLUGINS = "NodeRestriction,PodNodeSelector,PodTolerationRestriction,ExtendedResourceToleration"


def existing_kubeconfig() -> Path | None:
    """The cluster to use instead of starting a lab: GPUAAS_LAB_KUBECONFIG, or KUBECONFIG where all of its servers are
    on loopback. A shell that happens to point at a real cluster must not have tests run on it."""
    given = os.environ.get("GPUAAS_LAB_KUBECONFIG")
    if given:
        return Path(given).expanduser().absolute()
    common = os.environ.get("KUBECONFIG")
    path = Path(common).expanduser().absolute() if common else None
    if path is None or not path.is_file():
        return None
    servers = [urlsplit(url).hostname or "" for url in SERVER.findall(path.read_text(encoding="utf-8"))]
    return path if servers and all(LOOPBACK.fullmatch(host) for host in servers) else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Choices):
    own_topology = HERE / "topology.json"
    port_base: int = DEFAULT_PORT_BASE
    admission_plugins: str = ADMISSION_PLUGINS
    feature_gates: str = ""
    runtime_config: str = ""
    audit: bool = False
