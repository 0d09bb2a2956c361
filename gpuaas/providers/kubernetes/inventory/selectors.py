"""Evaluates the CEL expressions of DRA device classes as the scheduler does.

CEL itself comes from a library; Kubernetes' extensions for devices (quantities, versions, some functions on strings and
lists) are here. An expression that uses more selects nothing: better no pool than one sold as another.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import cel
import structlog

from gpuaas.providers.kubeapi.client import Object
from gpuaas.providers.kubeapi.quantities import quantity

log = structlog.get_logger(__name__)

Value = Any  # types of expressions: text, numbers, booleans, lists, and the two kinds of record below
QUANTITY, SEMVER = "quantity", "semver"
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
# errors of the library and our functions for a missing attribute, or one of another type
NOT_EVALUATED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_WALKS = re.compile(r"\b(all|exists|exists_one|filter|map|size)\s*\(")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class Selector:
    """All expressions of one class; a device is selected if every one is true."""

    def __init__(self, device_class: Object) -> None:
        self.name = str(device_class["metadata"]["name"])
        given = (device_class.get("spec") or {}).get("selectors") or []
        self._expressions = [str((each.get("cel") or {}).get("expression", "")) for each in given]
        self._domains = {a or b for text in self._expressions for a, b in _QUOTED.findall(text)}
        self._answers: dict[str, bool] = {}

    def selects(self, driver: str, device: Object) -> bool:
        """False if an expression cannot be evaluated: the scheduler allocates no such device either.

        Devices that are equal in all attributes that the expressions name are evaluated once: a site has thousands of them.
        """
        if not self._expressions:
            return False  # a class that selects everything is not a GPU type
        key = self._asked_of(driver, device)
        if key not in self._answers:
            variables = {"device": self._variables(driver, device)}
            self._answers[key] = all(self._true(text, variables) for text in self._expressions)
        return self._answers[key]

    def _asked_of(self, driver: str, device: Object) -> str:
        """The attributes that the expressions name; all of them if an expression iterates over attributes."""
        if any(_WALKS.search(text) for text in self._expressions):
            return repr((driver, device))
        named = [
            (part, key, value)
            for part in ("attributes", "capacity")
            for key, value in (device.get(part) or {}).items()
            if any(key.rpartition("/")[2] in text for text in self._expressions)
        ]
        return repr((driver, device.get("allowMultipleAllocations"), sorted(named, key=repr)))

    def _true(self, text: str, variables: Mapping[str, Value]) -> bool:
        try:
            program = _compiled(text)
            return program.execute(cel.Context(variables=dict(variables), functions=FUNCTIONS)) is True
        except NOT_EVALUATED as error:
            log.debug("device_class_not_evaluated", name=self.name, error=str(error)[:200])
            return False

    def _variables(self, driver: str, device: Object) -> dict[str, Value]:
        """A domain that the device lacks is an empty map, as at the scheduler, not an error."""
        attributes = _by_domain(
            driver, {key: _plain(each) for key, each in (device.get("attributes") or {}).items()}
        )
        capacity = _by_domain(
            driver, {key: _quantity(each["value"]) for key, each in (device.get("capacity") or {}).items()}
        )
        empty: dict[str, Value] = {domain: {} for domain in self._domains}
        return {
            "driver": driver,
            "attributes": {**empty, **attributes},
            "capacity": {**empty, **capacity},
            "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        }


@lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    return cel.compile(text)


def _by_domain(driver: str, values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Names without a domain belong to the driver's domain."""
    found: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        domain, _, name = key.rpartition("/")
        found.setdefault(domain or driver, {})[name] = value
    return found


def _plain(attribute: Object) -> Value:
    """`{"string": "x"}`, `{"version": "9.0.0"}`, `{"int": 4}`, `{"bool": true}`, or lists of them."""
    kind, value = next(iter(attribute.items()))
    if kind in ("version", "versions"):
        return [_semver(each) for each in value] if isinstance(value, list) else _semver(value)
    return value


def _quantity(text: str) -> Value:
    return {QUANTITY: str(quantity(text))}


def _semver(text: str, *normalize: bool) -> Value:
    """`semver("v1.2", true)` completes a short or prefixed version."""
    if any(normalize):
        core, dash, rest = text.removeprefix("v").partition("-")
        parts = [str(int(part)) for part in core.split(".")]
        text = ".".join([*parts, "0", "0"][: max(len(parts), 3)]) + dash + rest
    if not _VERSION.fullmatch(text):
        raise ValueError(f"not a version: {text}")
    return {SEMVER: text}


def _compare(one: Value, other: Value) -> int:
    """Of two quantities or two versions: -1, 0 or 1."""
    if QUANTITY in one and QUANTITY in other:
        a, b = _amount(one), _amount(other)
        return (a > b) - (a < b)
    mine, theirs = _parts(one[SEMVER]), _parts(other[SEMVER])
    return (mine > theirs) - (mine < theirs)


def _amount(value: Value) -> Fraction:
    return Fraction(value[QUANTITY])


def _parts(text: str) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    """Ordered as semver says: a pre-release comes before its release, its numbers before its words."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a version: {text}")
    before = found[4].split(".") if found[4] else []
    words = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in before]
    return tuple(int(found[number]) for number in (1, 2, 3)), not before, words


def _is(make: Callable[[str], Value]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            make(text)
        except ValueError:
            return False
        return True

    return check


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "quantity": _quantity,
    "isQuantity": _is(_quantity),
    "semver": _semver,
    "isSemver": _is(_semver),
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "major": lambda version: _parts(version[SEMVER])[0][0],
    "minor": lambda version: _parts(version[SEMVER])[0][1],
    "patch": lambda version: _parts(version[SEMVER])[0][2],
    "asInteger": lambda amount: int(_amount(amount)),
    "isInteger": lambda amount: _amount(amount).denominator == 1,
    "asApproximateFloat": lambda amount: float(_amount(amount)),
    "sign": lambda amount: (_amount(amount) > 0) - (_amount(amount) < 0),
    "lowerAscii": lambda text: text.lower(),
    "upperAscii": lambda text: text.upper(),
    "trim": lambda text: text.strip(),
    "replace": lambda text, old, new: text.replace(old, new),
    "split": lambda text, by: text.split(by),
    "includes": lambda value, one: one in value if isinstance(value, list) else value == one,
}
