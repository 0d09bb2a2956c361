"""Writes one of our objects exactly as desired, compares it with the site's, and finds out who changed it.

Kubernetes records in `managedFields` which manager owns which field. A field owned only by somebody else inside a part
that we define as a whole (a further rule, another key) is as wrong as a changed one of ours: apply would leave it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import Difference
from gpuaas.providers.kubeapi.client import FIELD_MANAGER, Api, Object

Path = tuple[str, ...]

# parts that we define as a whole; in other kinds components of the site add fields that must stay
EXACT: dict[str, tuple[str, ...]] = {
    "ResourceQuota": ("spec",),
    "LimitRange": ("spec",),
    "NetworkPolicy": ("spec",),
    "RoleBinding": ("roleRef", "subjects"),
    "ClusterRole": ("rules", "aggregationRule"),
    "ValidatingAdmissionPolicy": ("spec",),
    "ValidatingAdmissionPolicyBinding": ("spec",),
    "MutatingAdmissionPolicy": ("spec",),
    "MutatingAdmissionPolicyBinding": ("spec",),
    "ClusterQueue": ("spec",),
    "LocalQueue": ("spec",),
    "ResourceFlavor": ("spec",),
}
# whose deletion takes more than the object: rules of the site's own that forbid a change answer 422 too
NEVER_ANEW = ("Namespace",)
# updated by the site with every change
_NOISE = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
_TEXT = 160
_FIELD = "f:"


def put(api: Api, collection: str, body: Object) -> Object:
    """Write exactly `body`; an object with immutable fields is recreated, a namespace never. Repeating it writes nothing."""
    path = f"{collection}/{body['metadata']['name']}"
    try:
        found = api.apply(collection, body)
        if surplus := extras(found):
            found = api.merge(path, _without(surplus, body, found))
    except Permanent as error:
        if error.detail.get("status") != 422 or body["kind"] in NEVER_ANEW:
            raise
        metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        body = {**body, "metadata": metadata}
        _creation_check(api, collection, body)
        _remove(api, path)
        found = api.apply(collection, body)
    return found


def _creation_check(api: Api, collection: str, body: Object) -> None:
    """Raises if the site would refuse the new object too: then the existing one must stay."""
    named = {**body["metadata"], "name": f"{body['metadata']['name']}-anew"}
    api.create(collection, {**body, "metadata": named}, dryRun="All")


def _remove(api: Api, path: str) -> None:
    found = api.find(path)
    if found is not None:
        api.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})


def compare(
    api: Api, collection: str, body: Object, present: Object | None, *, step: str
) -> list[Difference]:
    """What `put` would change. An object that already matches costs no call; for others the site does a dry run."""
    name = f"{body['kind']}/{body['metadata']['name']}"
    if present is None:
        return [Difference(name, "", "present", "missing", step=step)]
    present = {"kind": body["kind"], **present}  # list items have no kind
    if _holds(present, body) and not extras(present):
        return []
    try:
        applied = api.apply(collection, body, dry_run=True)
    except NotFound:
        return [Difference(name, "", "present", "missing", step=step)]
    except Permanent as error:
        return [Difference(name, "", "as the portal created it", _short(error.message), "", step)]
    return [*differences(present, applied, step=step), *_additions(applied, name, step)]


def differences(before: Object, after: Object, *, step: str = "") -> list[Difference]:
    """Field by field; `after` is the desired state."""
    name = f"{after['kind']}/{after['metadata']['name']}"
    return [
        Difference(name, words(path), _text(wanted), _text(found), changed_by(before, path), step)
        for path, wanted, found in _leaves((), content(after), content(before))
    ]


def _additions(applied: Object, name: str, step: str) -> Iterator[Difference]:
    for path in extras(applied):
        yield Difference(name, words(path), "", _text(_at(applied, path)), changed_by(applied, path), step)


def extras(found: Object) -> list[Path]:
    """Fields that others added to parts that we define as a whole."""
    roots = EXACT.get(found.get("kind", ""), ())
    entries = [entry for entry in _entries(found) if not entry.get("subresource")]
    ours = {path for entry in entries if _is_ours(entry) for path in _owned(entry)}
    theirs = {path for entry in entries if not _is_ours(entry) for path in _owned(entry)}
    added = {path for path in theirs - ours if path and path[0][len(_FIELD) :] in roots}
    return sorted(path for path in added if not any(path != one and path[: len(one)] == one for one in added))


def changed_by(found: Object, path: Path) -> str:
    """The field's owner, or else whoever changed the object after us; "" if the site does not say."""
    entries = [entry for entry in _entries(found) if not entry.get("subresource")]
    others = [entry for entry in entries if not _is_ours(entry)]
    owners = [entry for entry in others if _owns(entry.get("fieldsV1") or {}, path)]
    if not owners:
        since = max((entry.get("time", "") for entry in entries if _is_ours(entry)), default="")
        owners = [entry for entry in others if entry.get("time", "") > since]
    if not owners:
        return ""
    last = max(owners, key=lambda entry: str(entry.get("time", "")))
    return f"{last.get('manager', 'unknown')} ({last.get('operation')}, {last.get('time', 'no time')})"[
        :_TEXT
    ]


def words(path: Path) -> str:
    """`spec.hard[requests.nvidia.com/gpu]`"""
    text = ""
    for step in path:
        key = step.removeprefix(_FIELD)
        text += f".{key}" if key.isidentifier() else f"[{key}]"
    return text.removeprefix(".")


def last_written(found: Object) -> tuple[str, bool]:
    """When a field was last set (ignoring status), and whether only the portal did."""
    entries = [entry for entry in _entries(found) if not entry.get("subresource")]
    last = max((str(entry.get("time", "")) for entry in entries), default="")
    return last, all(_is_ours(entry) for entry in entries if str(entry.get("time", "")) == last)


def _entries(found: Object) -> list[Object]:
    return found["metadata"].get("managedFields") or []


def _is_ours(entry: Object) -> bool:
    return bool(entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply")


def _owned(entry: Object) -> Iterator[Path]:
    """The leaves of fieldsV1; "." is the field itself, counted only where nothing in it is named."""

    def walk(path: Path, fields: Mapping[str, Any]) -> Iterator[Path]:
        inner = {key: value for key, value in fields.items() if key != "."}
        if not inner:
            yield path
        for key, value in inner.items():
            yield from walk((*path, key), value)

    return walk((), entry.get("fieldsV1") or {})


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    if not fields:
        return False
    for step in path:
        if not fields:
            return True  # it owns the whole of a value that is atomic to the API server
        key = step if step.startswith(_FIELD) else f"{_FIELD}{step}"
        if key not in fields:
            return False
        fields = fields[key]
    return True


def _without(surplus: list[Path], body: Object, found: Object) -> Object:
    """A merge patch that removes the fields; for a field inside a list it restores the whole list."""
    change: Object = {"metadata": {"uid": found["metadata"]["uid"]}}
    for path in surplus:
        plain = [step for step in path if step.startswith(_FIELD)]
        whole = plain == list(path)
        keys = [step.removeprefix(_FIELD) for step in plain]
        if not whole:
            keys = [step.removeprefix(_FIELD) for step in path[: _first_item(path)]]
        inner = change
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = None if whole else _at(body, tuple(keys))
    return change


def _first_item(path: Path) -> int:
    return next(index for index, step in enumerate(path) if not step.startswith(_FIELD))


def _at(found: Any, path: Path) -> Any:
    for step in path:
        if not isinstance(found, dict):
            return found
        found = found.get(step.removeprefix(_FIELD))
    return found


def content(found: Object) -> Object:
    """The fields that people or controllers set, without status and bookkeeping."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in _NOISE}
    rest = {key: value for key, value in found.items() if key not in ("status", "apiVersion", "kind")}
    return {**rest, "metadata": metadata}


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key == "apiVersion" or _holds(found.get(key), value) for key, value in wanted.items())
    return bool(found == wanted)


def _leaves(path: Path, wanted: Any, found: Any) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            yield from _leaves((*path, key), wanted.get(key), found.get(key))
    elif wanted != found:
        yield path, wanted, found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return _short(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
