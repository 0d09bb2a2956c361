"""The shapes of policies, bindings and rules."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Object

WRITTEN = ["CREATE", "UPDATE"]
ADMISSION = "/apis/admissionregistration.k8s.io"
POLICIES = f"{ADMISSION}/v1/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/v1/validatingadmissionpolicybindings"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
# preferred first; older sites serve none and have only the annotations of the admission plugins
MUTATING_VERSIONS = ("v1", "v1beta1")


def mutating(version: str, *, bindings: bool = False) -> str:
    return f"{ADMISSION}/{version}/mutatingadmissionpolic{'ybindings' if bindings else 'ies'}"


def resources(
    group: str, plurals: str, operations: Sequence[str] = ("CREATE", "UPDATE", "DELETE"), *, scope: str = "*"
) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": plurals.split(),
        "scope": scope,
    }


class Rule(NamedTuple):
    """If the expression is false, the request is refused with 403 and the sentence, which says what to do."""

    expression: str
    sentence: str


def validating(
    name: str,
    matched: list[Object],
    *,
    conditions: dict[str, str],
    rules: Iterable[Rule],
    variables: dict[str, str] | None = None,
    sentences: dict[str, str] | None = None,
    exact: bool = False,
) -> Object:
    """`sentences`: message to the expression that completes it with what is true of this workspace. exact: matches what is sent by
    these versions of an API, not what the server could convert to them."""
    completed = sentences or {}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": matched, **({"matchPolicy": "Exact"} if exact else {})},
        "matchConditions": _named(conditions),
        "validations": [
            {
                "expression": text,
                "message": message,
                "reason": "Forbidden",
                **({"messageExpression": completed[message]} if message in completed else {}),
            }
            for text, message in rules
        ],
        **({"variables": _named(variables)} if variables else {}),
    }
    return _object("v1", "ValidatingAdmissionPolicy", name, spec)


def mutation(
    version: str,
    name: str,
    matched: list[Object],
    *,
    conditions: dict[str, str],
    patches: Iterable[str],
    variables: dict[str, str],
) -> Object:
    """Done again when another mutation has added to the object after it."""
    spec: Object = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": matched},
        "matchConditions": _named(conditions),
        "variables": _named(variables),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in patches],
    }
    return _object(version, "MutatingAdmissionPolicy", name, spec)


def binding(policy: Object) -> Object:
    name, kind = policy["metadata"]["name"], policy["kind"]
    spec: Object = {"policyName": name}
    if kind == "ValidatingAdmissionPolicy":
        spec["validationActions"] = ["Deny"]
    return _object(policy["apiVersion"].rpartition("/")[2], f"{kind}Binding", name, spec)


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": f"admissionregistration.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name, "labels": {names.MANAGED_BY: names.MANAGER}},
        "spec": spec,
    }


def _named(expressions: dict[str, str]) -> list[Object]:
    return [{"name": key, "expression": text} for key, text in expressions.items()]
