"""The secrets of a cluster, each derived from its seed for one purpose; and short-lived credentials for people.

The portal itself is the CA that the head trusts (for Kubernetes clients and for ssh), so no administrator's credential ever
leaves the head, and no personal one is stored.
"""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpuaas.core.ids import short
from gpuaas.providers.base import Boots, ClusterRef, Member
from gpuaas.providers.kubeconfig import kubeconfig_text

ADMINS = "gpuaas:admins"  # the group in a client certificate, which the head binds to cluster-admin
LOGIN = "tenant"  # the account that members share where the head has no logins of their own, as of earlier releases
AGENTS, SERVERS = "k3s-agent-token", "k3s-token"  # purposes of the join tokens of workers and of heads
CLIENT_CA, SERVER_CA = "k3s-client-ca", "k3s-server-ca"
BEGIN, END = datetime(2025, 1, 1, tzinfo=UTC), datetime(2055, 1, 1, tzinfo=UTC)
SKEW = timedelta(minutes=5)
PEM = serialization.Encoding.PEM
PLAIN = serialization.NoEncryption()


@dataclass(frozen=True)
class Keys:
    boots: Boots

    def word(self, purpose: str) -> str:
        return self.boots.derive(purpose).hex()

    @cached_property
    def munge_key(self) -> str:
        return base64.b64encode(self.boots.derive("munge/1") + self.boots.derive("munge/2")).decode()

    # -- Kubernetes ------------------------------------------------------------------------------------------------------

    def authority(self, purpose: str) -> tuple[str, str]:
        """(certificate, private key) of a CA; deterministic."""
        return _pem(self._certificate(purpose)), _key_pem(self._authority_key(purpose))

    def _authority_key(self, purpose: str) -> ec.EllipticCurvePrivateKey:
        order = ec.SECP256R1.group_order
        wide = self.boots.derive(f"{purpose}/1") + self.boots.derive(f"{purpose}/2")
        return ec.derive_private_key(int.from_bytes(wide) % (order - 1) + 1, ec.SECP256R1())

    def _certificate(self, purpose: str) -> x509.Certificate:
        key, name = (
            self._authority_key(purpose),
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, purpose)]),
        )
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
            .serial_number(int.from_bytes(self.boots.derive(f"{purpose}/serial")[:16]) | 1)
            .not_valid_before(BEGIN)
            .not_valid_after(END)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)

    def kubeconfig(self, ref: ClusterRef, server: str, member: Member, now: datetime, until: datetime) -> str:
        """With a key for this one file. It expires by itself: a client certificate cannot be revoked."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ADMINS),
                x509.NameAttribute(NameOID.COMMON_NAME, member.subject),
            ]
        )
        issuer = self._certificate(CLIENT_CA)
        made = (
            x509.CertificateBuilder(
                issuer_name=issuer.subject, subject_name=subject, public_key=key.public_key()
            )
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self._authority_key(CLIENT_CA), hashes.SHA256())
        )
        user = {
            "client-certificate-data": _data(_pem(made)),
            "client-key-data": _data(_key_pem(key)),
        }
        return kubeconfig_text(
            server=server,
            context=ref.external_name,
            user_name=member.name,
            user=user,
            authority=_data(_pem(self._certificate(SERVER_CA))),
        )

    # -- ssh -------------------------------------------------------------------------------------------------------------

    @property
    def ssh_authority(self) -> str:
        """The public key, in sshd's format."""
        return _ssh_public(self._ed25519("ssh-ca"))

    @property
    def host_key(self) -> tuple[str, str]:
        """(private, public) of the head, so that members can authenticate it."""
        key = self._ed25519("ssh-host")
        return _ssh_private(key), _ssh_public(key)

    def ssh_script(self, ref: ClusterRef, host: str, member: Member, now: datetime, until: datetime) -> str:
        """`sh FILE [COMMAND]` opens a shell on the head, with a key for this one file and a certificate until `until`."""
        key = Ed25519PrivateKey.generate()
        certificate = (
            serialization.SSHCertificateBuilder()
            .public_key(key.public_key())
            .serial(int.from_bytes(ref.id.bytes[-7:]))
            .type(serialization.SSHCertificateType.USER)
            .key_id(f"{member.subject} {member.name}".encode())
            .valid_principals([(member.login or principal(ref)).encode()])
            .valid_after(int((now - SKEW).timestamp()))
            .valid_before(int(until.timestamp()))
            .add_extension(b"permit-pty", b"")
            .add_extension(b"permit-port-forwarding", b"")
            .add_extension(b"permit-agent-forwarding", b"")
            .sign(self._ed25519("ssh-ca"))
        )
        return SCRIPT.format(
            name=ref.external_name,
            until=f"{until:%Y-%m-%d %H:%M} UTC",
            key=_ssh_private(key).strip(),
            certificate=certificate.public_bytes().decode().strip(),
            host=host,
            host_key=self.host_key[1],
            login=member.login or LOGIN,
        )

    def _ed25519(self, purpose: str) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.boots.derive(purpose))


SCRIPT = """\
#!/bin/sh
# Access to {name} until {until}:  sh THIS_FILE [COMMAND]
umask 077
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cat > "$here/key" <<'EOF'
{key}
EOF
cat > "$here/key-cert.pub" <<'EOF'
{certificate}
EOF
echo '{host} {host_key}' > "$here/known_hosts"
ssh -i "$here/key" -o CertificateFile="$here/key-cert.pub" -o IdentitiesOnly=yes \\
  -o UserKnownHostsFile="$here/known_hosts" -o StrictHostKeyChecking=yes {login}@{host} "$@"
"""


def principal(ref: ClusterRef) -> str:
    """Of certificates for LOGIN; a login of one person is its own principal, since the authority is the cluster's own."""
    return f"cluster-{short(ref.id)}"


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(PEM, serialization.PrivateFormat.TraditionalOpenSSL, PLAIN).decode()


def _ssh_private(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, PLAIN).decode()


def _ssh_public(key: Ed25519PrivateKey) -> str:
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def _data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
