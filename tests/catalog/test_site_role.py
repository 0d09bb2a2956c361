"""What the command prints is what `kubectl apply` takes, and no more than is needed."""

import io

import pytest
import yaml
from django.core.management import call_command


def printed(*flags: str) -> list[dict[str, object]]:
    out = io.StringIO()
    call_command("site_role", *flags, stdout=out)
    return list(yaml.safe_load_all(out.getvalue()))


def test_an_account_and_its_role() -> None:
    kinds = [each["kind"] for each in printed()]
    assert kinds == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]


@pytest.mark.parametrize("flags", [(), ("--virtual-clusters",)])
def test_nothing_is_given_wholesale(flags: tuple[str, ...]) -> None:
    role = next(each for each in printed(*flags) if each["kind"] == "ClusterRole")
    rules = role["rules"]
    assert isinstance(rules, list)
    for rule in rules:
        for key in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
            assert "*" not in rule.get(key, []), rule
        if {"bind", "escalate", "impersonate"} & set(rule["verbs"]):
            assert rule["resourceNames"], "only by name"
