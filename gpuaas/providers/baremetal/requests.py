"""Reads a CertificateSigningRequest: the requester, the signer, and the request's own content.

The API server sets username and groups from the credential of whoever created the object, and nothing of the spec can be
changed later (certificates.k8s.io/v1); so what was judged is what is signed. The request's own content is not trusted.
"""

import base64
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gpuaas.core.errors import Invalid

BEGIN, END = b"-----BEGIN CERTIFICATE REQUEST-----", b"-----END CERTIFICATE REQUEST-----"
CURVES = ("secp256r1", "secp384r1", "secp521r1")
RSA_BITS = (2048, 3072, 4096)
Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class SigningRequest:
    """decided: it was approved or denied, or its certificate was issued; approved: it was approved."""

    name: str
    uid: str
    signer: str
    username: str
    groups: frozenset[str]
    usages: frozenset[str]
    pem: bytes
    created_at: datetime
    decided: bool = False
    approved: bool = False


@dataclass(frozen=True)
class Claims:
    """The request's own content, signed with its own key."""

    common_name: str
    organizations: tuple[str, ...]
    dns: frozenset[str]
    addresses: frozenset[Address]


def request_read(found: dict[str, Any]) -> SigningRequest:
    """From the object as the API server gives it, its `request` decoded from base64."""
    spec, status, metadata = found["spec"], found.get("status") or {}, found["metadata"]
    decisions = {one["type"] for one in status.get("conditions") or ()}
    return SigningRequest(
        name=metadata["name"],
        uid=metadata["uid"],
        signer=spec["signerName"],
        username=spec.get("username", ""),
        groups=frozenset(spec.get("groups") or ()),
        usages=frozenset(spec.get("usages") or ()),
        pem=base64.b64decode(spec["request"]),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        decided=bool(decisions or status.get("certificate")),
        approved="Approved" in decisions,
    )


def claims_read(pem: bytes) -> Claims:
    """Raises Invalid for anything that a kubelet does not write."""
    text = pem.strip()
    if not (text.startswith(BEGIN) and text.endswith(END)) or text.count(b"-----BEGIN") != 1:
        raise Invalid("the request is not one PEM block of a certificate request")
    try:
        csr = x509.load_pem_x509_csr(text)
        signed = csr.is_signature_valid
        extensions = list(csr.extensions)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise Invalid("the request cannot be read as a certificate request") from error
    if not signed:
        raise Invalid("the request is not signed with its own key")
    _key_check(csr)
    common, organizations = _subject(csr)
    dns, addresses = _names(extensions)
    return Claims(common, organizations, dns, addresses)


def _key_check(csr: x509.CertificateSigningRequest) -> None:
    try:
        key = csr.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid("the request's key is not of a kind that kubelets use") from error
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVES:
        return
    if isinstance(key, rsa.RSAPublicKey) and key.key_size in RSA_BITS and key.public_numbers().e == 65537:
        return
    raise Invalid("the request's key is neither ECDSA on P-256, P-384 or P-521 nor RSA of 2048 to 4096 bits")


def _subject(csr: x509.CertificateSigningRequest) -> tuple[str, tuple[str, ...]]:
    common: list[str] = []
    organizations: list[str] = []
    for part in csr.subject:
        if part.oid == x509.NameOID.COMMON_NAME:
            common.append(str(part.value))
        elif part.oid == x509.NameOID.ORGANIZATION_NAME:
            organizations.append(str(part.value))
        else:
            raise Invalid(f"the subject has {part.oid.dotted_string} besides its organization and name")
    if len(common) != 1:
        raise Invalid(f"the subject has {len(common)} common names instead of one")
    return common[0], tuple(organizations)


def _names(extensions: list[x509.Extension[Any]]) -> tuple[frozenset[str], frozenset[Address]]:
    dns: set[str] = set()
    addresses: set[Address] = set()
    for extension in extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            raise Invalid(f"the request asks for the extension {extension.oid.dotted_string}")
        for name in extension.value:
            if isinstance(name, x509.DNSName):
                dns.add(name.value.lower())
            elif isinstance(name, x509.IPAddress) and isinstance(name.value, Address):
                addresses.add(name.value)
            else:
                raise Invalid("the request contains names that are neither DNS names nor IP addresses")
    return frozenset(dns), frozenset(addresses)
