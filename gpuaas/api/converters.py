"""Converters of path parts: a value that cannot be one of our names does not match, so the answer is 404."""

from django.urls.converters import StringConverter


class Slug(StringConverter):
    """Slugs of organizations and projects."""

    regex = r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"


class Name(StringConverter):
    """Slugs of flavors, GPU types and sites."""

    regex = r"[a-zA-Z0-9](?:[a-zA-Z0-9._-]{0,62}[a-zA-Z0-9])?"


class Username(StringConverter):
    """As Django's own validator of names has it: letters of every script."""

    regex = r"[\w.@+-]{1,150}"


class Month(StringConverter):
    regex = r"20[0-9]{2}-(?:0[1-9]|1[0-2])"


class Resource(StringConverter):
    """A key of quotas: gpu:<GPU type>, vcpu, memory, storage."""

    regex = r"[a-z][a-z0-9:.-]{0,79}"


CONVERTERS = {"name_slug": Slug, "name": Name, "username": Username, "month": Month, "resource": Resource}
