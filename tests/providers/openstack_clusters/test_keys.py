"""Credentials of people: short, personal, signed by the authority that the head has in its user data."""

import base64
import socket
import ssl
import subprocess
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from gpuaas.providers.base import ClusterKind, Member
from gpuaas.providers.openstack.clusters.keys import Keys
from tests.providers.openstack_clusters.stage import files, guest, spec

ALICE = Member("u-a11ce", "alice", "admin")
NOW = datetime.now(UTC).replace(microsecond=0)
TLS = "/var/lib/rancher/k3s/server/tls"


def shown(place: Path, authority: str, clients: str) -> str:
    """What the server sees of who comes; or why it lets nobody in. Its files are in `place`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(place / "server-ca.crt", place / "server-ca.key")
    server.load_verify_locations(place / clients)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=authority)
    client.check_hostname = False
    client.load_cert_chain(place / "client-certificate-data", place / "client-key-data")
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    theirs.settimeout(60)
    said: list[object] = []

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as end:
                said.append(end.getpeercert())
                end.send(b"hello")
        except ssl.SSLError as error:
            said.append(error)
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours) as end:
            end.recv(5)
    except OSError:
        pass
    thread.join(60)
    assert len(said) == 1
    return str(said[0])


def test_a_kubeconfig_opens_what_trusts_the_clusters_authority(tmp_path: Path) -> None:
    """A real handshake, however late the suite comes to it: a server that, as the head, asks for a certificate of the client CA and shows
    one of the server CA."""
    made = spec()
    head = files(guest(made))
    for name in ("client-ca.crt", "server-ca.crt", "server-ca.key"):
        (tmp_path / name).write_text(head[f"{TLS}/{name}"])
    config = yaml.safe_load(
        Keys(made.boots).kubeconfig(made.ref, "https://203.0.113.7:6443", ALICE, NOW, NOW + timedelta(days=2))
    )
    assert config["clusters"][0]["cluster"]["server"] == "https://203.0.113.7:6443"
    user = config["users"][0]["user"]
    for name in ("client-certificate-data", "client-key-data"):
        (tmp_path / name).write_bytes(base64.b64decode(user[name]))
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()

    seen = shown(tmp_path, authority, "client-ca.crt")
    assert "u-a11ce" in seen
    assert "gpuaas:admins" in seen
    other = Keys(spec(ClusterKind.SLURM).boots.__class__("", "another"))
    (tmp_path / "other.crt").write_text(other.authority("k3s-client-ca")[0])
    assert "u-a11ce" not in shown(tmp_path, authority, "other.crt")


def test_a_client_certificate_ends_when_it_should_and_makes_no_others() -> None:
    made = spec()
    document = Keys(made.boots).kubeconfig(
        made.ref, "https://x:6443", ALICE, NOW, NOW + timedelta(minutes=10)
    )
    data = yaml.safe_load(document)["users"][0]["user"]["client-certificate-data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(data))
    assert certificate.not_valid_after_utc == NOW + timedelta(minutes=10)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    again = Keys(made.boots).kubeconfig(made.ref, "https://x:6443", ALICE, NOW, NOW + timedelta(minutes=10))
    assert document != again, "each has a key of its own"


@pytest.fixture
def script() -> str:
    made = spec(ClusterKind.SLURM)
    return Keys(made.boots).ssh_script(made.ref, "203.0.113.7", ALICE, NOW, NOW + timedelta(hours=2))


def test_an_ssh_certificate_is_of_the_clusters_authority(script: str, tmp_path: Path) -> None:
    head = files(guest(spec(ClusterKind.SLURM)))
    line = next(line for line in script.splitlines() if line.startswith("ssh-ed25519-cert-v01"))
    (tmp_path / "key-cert.pub").write_text(line + "\n")
    (tmp_path / "ca.pub").write_text(head["/etc/ssh/gpuaas_ca.pub"])
    said = _keygen("-L", "-f", str(tmp_path / "key-cert.pub"))
    print_of_authority = _keygen("-l", "-f", str(tmp_path / "ca.pub")).split()[1]
    assert print_of_authority in said
    assert 'Key ID: "u-a11ce alice"' in said
    assert "cluster-12345678" in said
    assert (
        "AuthorizedPrincipalsFile /etc/ssh/gpuaas_principals/%u"
        in head["/etc/ssh/sshd_config.d/50-gpuaas.conf"]
    )


def test_the_script_calls_ssh_with_key_certificate_and_the_heads_own_key(script: str, tmp_path: Path) -> None:
    """With a make-believe ssh that looks at what it is given, for there is no head here."""
    (tmp_path / "train.sh").write_text(script)
    fake = tmp_path / "ssh"
    fake.write_text(
        '#!/bin/sh\necho "$@"\nssh-keygen -y -f "$2" && cat "$(dirname "$2")/known_hosts" && ls -l "$2"\n'
    )
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", tmp_path / "train.sh", "sinfo", "--all"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    called, public, known, listed = done.stdout.splitlines()
    assert called.endswith("StrictHostKeyChecking=yes tenant@203.0.113.7 sinfo --all")
    assert public.startswith("ssh-ed25519 ")
    assert known == f"203.0.113.7 {Keys(spec().boots).host_key[1]}"
    assert listed.startswith("-rw-------")
    assert not Path(called.split()[1]).exists(), "nothing is left behind"


def test_the_private_key_is_in_the_file_once(script: str) -> None:
    assert script.count("BEGIN OPENSSH PRIVATE KEY") == 1


def test_a_person_with_a_login_enters_as_that_and_nobody_else(tmp_path: Path) -> None:
    made, member = spec(ClusterKind.SLURM), replace(ALICE, login="alice-2")
    text = Keys(made.boots).ssh_script(made.ref, "203.0.113.7", member, NOW, NOW + timedelta(hours=1))
    assert " alice-2@203.0.113.7 " in text
    line = next(line for line in text.splitlines() if line.startswith("ssh-ed25519-cert-v01"))
    (tmp_path / "key-cert.pub").write_text(line + "\n")
    said = _keygen("-L", "-f", str(tmp_path / "key-cert.pub")).split()
    assert said[said.index("Principals:") + 1 : said.index("Critical")] == ["alice-2"]


def _keygen(*arguments: str) -> str:
    return subprocess.run(["ssh-keygen", *arguments], capture_output=True, text=True, check=True).stdout
