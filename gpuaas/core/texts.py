"""Texts that programs of tenants have written, as PostgreSQL keeps them: it refuses a null character and half a pair."""


def storable(text: str) -> str:
    return text.replace("\x00", "").encode(errors="replace").decode()
