"""Where the lab keeps its things, and what a person chose for it; the choices outlive the process."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from deploy.lab.files import CACHE, write_private

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
class Settings:
    """One lab's choices. None given to `changed` means: as before."""

    port_base: int = DEFAULT_PORT_BASE
    admission_plugins: str = ADMISSION_PLUGINS
    feature_gates: str = ""
    audit: bool = False
    topology: str = str(HERE / "topology.json")

    @classmethod
    def load(cls, path: Path) -> Self:
        """The saved choices, or the defaults where there are none or a newer lab wrote other names."""
        try:
            saved = json.loads(path.read_text())
        except (OSError, ValueError):
            return cls()
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})

    def changed(self, **given: Any) -> Self:
        return dataclasses.replace(
            self, **{name: value for name, value in given.items() if value is not None}
        )

    def save(self, path: Path) -> None:
        write_private(path, json.dumps(dataclasses.asdict(self), indent=1))
