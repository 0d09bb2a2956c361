"""Builders for the fields that drivers declare: JSON Schemas with titles and descriptions."""

from typing import Any

from gpuaas.core.schema import Schema


def section(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def text(title: str, description: str = "", **more: Any) -> Schema:
    return {"type": "string", "title": title, "description": description, **more}


def secret(title: str, description: str = "", **more: Any) -> Schema:
    return text(title, description, writeOnly=True, **more)


def document(title: str, description: str) -> Schema:
    """YAML with credentials of a site."""
    return secret(title, description, contentMediaType="application/yaml")


def choice(title: str, description: str, **words: str) -> Schema:
    return text(
        title, description, oneOf=[{"const": const, "title": label} for const, label in words.items()]
    )


def number(title: str, description: str, *, least: int, most: int) -> Schema:
    found = {"type": "integer", "minimum": least, "maximum": most}
    return {**found, "title": title, "description": description}


def texts(title: str, description: str) -> Schema:
    """One per line."""
    items = {"type": "string", "maxLength": 253}
    return {"type": "array", "items": items, "title": title, "description": description}


KUBECONFIG = document("Kubeconfig", "for a service account that may manage namespaces, quotas and roles")
# how people sign in at the site; `providers/base/signin.py` validates it as a whole
OIDC = section(
    issuer_url=text(
        "Sign-in: issuer", "https://…, the same as the flag --oidc-issuer-url of the site's API server"
    ),
    client_id=text("Sign-in: client"),
    username_claim=text("Sign-in: claim of the name", enum=["sub", "email"]),
    username_prefix=text("Sign-in: prefix of names"),
    groups_prefix=text("Sign-in: prefix of groups"),
)
