"""Keys, certificates and kubeconfigs of one lab, made with the openssl command."""

import base64
import json
import shutil
from pathlib import Path

from deploy.lab.commands import output_of
from deploy.lab.errors import LabError
from deploy.lab.files import write_private

DAYS = "3650"
SERVERS = {
    "apiserver": (
        "IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
    ),
    "kubelet": "IP:127.0.0.1,DNS:localhost",
}
CLIENTS = {
    "admin": "/O=system:masters/CN=lab-admin",
    "kwok": "/O=system:masters/CN=lab-kwok",
    "apiserver-to-kubelet": "/O=system:masters/CN=lab-apiserver",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
}
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def ensure(folder: Path) -> None:
    """Makes all keys at once, so that a start that was cut short leaves none of them."""
    names = ["ca", "service-accounts", *SERVERS, *CLIENTS]
    if all((folder / f"{name}.key").exists() for name in names):
        return
    if not shutil.which("openssl"):
        raise LabError("no openssl: install the package openssl, which makes the lab's certificates")
    shutil.rmtree(folder, ignore_errors=True)
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True, mode=0o700)
    _authority(new)
    _openssl("genrsa", "-out", f"{new}/service-accounts.key", "2048")
    _openssl("rsa", "-in", f"{new}/service-accounts.key", "-pubout", "-out", f"{new}/service-accounts.pub")
    for name, addresses in SERVERS.items():
        server_certificate(new, name, addresses)
    for name, subject in CLIENTS.items():
        client_certificate(new, name, subject)
    new.rename(folder)


def server_certificate(folder: Path, name: str, addresses: str) -> None:
    """Of the authority whose ca.crt and ca.key are in the folder; addresses as openssl writes them: IP:… or DNS:…"""
    usage = f"extendedKeyUsage=serverAuth\nsubjectAltName={addresses}\n"
    _certificate(folder, name, f"/CN={name}", usage)


def client_certificate(folder: Path, name: str, subject: str) -> None:
    """Of the same authority, for who calls the API: `/O=group/CN=user`."""
    _certificate(folder, name, subject, "extendedKeyUsage=clientAuth\n")


def kubeconfig(folder: Path, who: str, server: str, *, server_name: str = "") -> str:
    """As JSON, which every reader of YAML takes; carries its keys, so that the file can be moved. server_name: that of the server's
    certificate, where it is not in the address."""
    named = {"tls-server-name": server_name} if server_name else {}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": who}}],
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(folder / "ca.crt"),
                        **named,
                    },
                }
            ],
            "users": [
                {
                    "name": who,
                    "user": {
                        "client-certificate-data": _base64(folder / f"{who}.crt"),
                        "client-key-data": _base64(folder / f"{who}.key"),
                    },
                }
            ],
        },
        indent=1,
    )


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _authority(folder: Path) -> None:
    usage = "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"
    extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", usage)
    target = ("-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.crt")
    _openssl("req", "-x509", *KEY, "-days", DAYS, "-subj", "/CN=gpuaas-lab", *target, *extensions)


def _certificate(folder: Path, name: str, subject: str, extensions: str) -> None:
    path = folder / name
    write_private(folder / f"{name}.ext", extensions)
    _openssl("req", "-new", *KEY, "-subj", subject, "-keyout", f"{path}.key", "-out", f"{path}.csr")
    signer = ("-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-CAcreateserial")
    _openssl(
        "x509",
        "-req",
        "-in",
        f"{path}.csr",
        *signer,
        "-days",
        DAYS,
        "-extfile",
        f"{path}.ext",
        "-out",
        f"{path}.crt",
    )


def _openssl(*words: str) -> None:
    output_of("openssl", *words, limit=60)
