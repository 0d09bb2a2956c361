"""The released syncer as a plain process, with the configuration and the account that the driver has made for it.

What is in its pod at a real site stands beside it here: the virtual API server and its store are the second control plane of the lab. Its
client of the store speaks TLS alone, so a forwarder of ours stands before etcd.
"""

import asyncio
import base64
import os
import ssl
import subprocess
import threading
from pathlib import Path

from deploy.lab.kubernetes import Lab
from deploy.lab.kubernetes.controlplane import PORTS
from deploy.lab.ports import free_base
from gpuaas.providers.base import ClusterSpec
from gpuaas.providers.vcluster import names, site
from tests.providers.vcluster.play import PlayedSite, kubeconfig_of


class ReleasedSyncer:
    """Of one cluster, whose control plane the driver has applied."""

    def __init__(self, binary: Path, folder: Path, played: PlayedSite, virtual: Lab, port: int) -> None:
        self.binary, self.folder, self.played, self.virtual, self.port = binary, folder, played, virtual, port
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "syncer.log"

    def start(self, spec: ClusterSpec) -> None:
        name, host = spec.external_name, self.played.host
        secret = host.get(f"{site.path(name, 'secrets')}/{names.config_secret(name)}")
        config, kubeconfig = self.folder / "config.yaml", self.folder / "site.kubeconfig"
        config.write_bytes(base64.b64decode(secret["data"]["config.yaml"]))
        kubeconfig.write_text(kubeconfig_of(host, self.played.token(name)))
        own = {
            "VCLUSTER_NAME": name,
            "POD_NAME": f"{name}-0",
            "POD_IP": "127.0.0.1",
            "NODE_NAME": "h100-1",
            "NODE_IP": "127.0.0.1",
            "NAMESPACE": names.space(name),
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(self.folder),
        }
        command = [str(self.binary), "start", "--config", str(config)]
        for key, value in self._beside().items():
            command += ["--set", f"{key}={value}"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def _beside(self) -> dict[str, str]:
        """Only what says that API server and store are not in the same pod."""
        pki = self.virtual.pki
        kept, inside = "controlPlane.backingStore", "experimental.virtualClusterKubeConfig"
        store = int(self.virtual.server.rpartition(":")[2]) - PORTS["kube-apiserver"] + PORTS["etcd"]
        return {
            f"{kept}.database.embedded.enabled": "false",
            f"{kept}.etcd.external.enabled": "true",
            f"{kept}.etcd.external.endpoint": f"https://127.0.0.1:{_forward(store, pki)}",
            f"{kept}.etcd.external.tls.caFile": str(pki / "ca.crt"),
            f"{kept}.etcd.external.tls.certFile": str(pki / "admin.crt"),
            f"{kept}.etcd.external.tls.keyFile": str(pki / "admin.key"),
            "controlPlane.distro.k8s.apiServer.enabled": "false",
            "controlPlane.distro.k8s.controllerManager.enabled": "false",
            "controlPlane.proxy.port": str(self.port),
            f"{inside}.kubeConfig": str(self.virtual.kubeconfig),
            f"{inside}.serverCAKey": str(pki / "ca.key"),
            f"{inside}.serverCACert": str(pki / "ca.crt"),
            f"{inside}.clientCACert": str(pki / "ca.crt"),
            f"{inside}.requestHeaderCACert": str(pki / "ca.crt"),
        }


def free_port() -> int:
    return free_base([0], given=None, before=28443, first=28443)


def _forward(target: int, pki: Path) -> int:
    """The port of a TLS listener that leads to a plain one, for as long as this process lives."""
    ready, port = threading.Event(), [0]

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pipe(reader, back), pipe(there, writer))

    async def serve() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        context.set_alpn_protocols(["h2"])
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
        port[0] = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), name="etcd-forwarder", daemon=True).start()
    assert ready.wait(60)
    return port[0]
