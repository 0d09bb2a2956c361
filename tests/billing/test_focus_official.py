"""The official FOCUS validator reads months of usage, credits, corrections and taxes, in both formats, and has nothing to say."""

import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from billing.focus import charges_of, focus_csv, focus_parquet, focus_rows
from deploy import focus_validator
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.focus import DECEMBER, NOVEMBER, OCTOBER, months_stage
from tests.billing.stage import utc

pytestmark = pytest.mark.django_db
KNOWN = {"InvoiceId-C-004-C"}  # an error of the rule: it wants InvoiceId null where it must not be
# what a provider like this one has; there are no zones, commitments, virtual currencies, and prices are in the currency that is billed
HERE = (
    *(
        "ACCOUNT_NAMING",
        "MULTIPLE_PRICING_CATEGORIES",
        "MULTIPLE_SUB_ACCOUNT_TYPES",
        "MULTIPLE_BILLING_ACCOUNT_TYPES",
    ),
    *(
        "NEGOTIATED_PRICING",
        "PUBLIC_PRICE_LIST",
        "USAGE_MEASUREMENT",
        "UNIT_PRICING",
        "SUB_ACCOUNT",
        "REGION",
        "TAGGING",
    ),
    *("BILLING_BASED_ON_PROVISIONED_RESOURCES", "RESOURCE_TYPE_ASSIGNMENT"),
)
OPTIONS = [
    *("--validate-version", "1.2", "--focus-dataset", "CostAndUsage"),
    *("--applicability-criteria", ",".join(f"{name}_SUPPORTED" for name in HERE)),
    *("--block-download", "--output-type", "unittest"),
]


@pytest.fixture
def validator() -> Path:
    if focus_validator.python() is None:
        pytest.skip("FOCUS validator: it needs Python 3.12, and there is none here")
    found = focus_validator.program()
    if found is None:
        pytest.skip("FOCUS validator: make test-deep ROOM=billing installs it")
    return found


@pytest.fixture
def staged(
    project: Project,
    h100: Flavor,
    l40s: Flavor,
    alice: User,
    as_olga: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    monkeypatch.setattr(clock, "now", lambda: utc("2026-12-20 12:00:00"))
    months_stage(project, h100, l40s, alice, as_olga)
    return project


@pytest.mark.parametrize(
    ("month", "suffix"), [(OCTOBER, "csv"), (NOVEMBER, "csv"), (DECEMBER, "parquet")], ids=str
)
def test_months_of_usage_credits_and_corrections(
    validator: Path, staged: Project, as_alice: Actor, tmp_path: Path, month: date, suffix: str
) -> None:
    """October was invoiced with taxes, November corrects it, December runs and has notes."""
    judged = verdicts(validator, exported(staged, as_alice, tmp_path, month, suffix))
    assert len(judged) > 250
    assert failures(judged) <= KNOWN


def test_it_sees_what_is_wrong(validator: Path, staged: Project, as_alice: Actor, tmp_path: Path) -> None:
    """Else its silence would prove nothing."""
    file = exported(staged, as_alice, tmp_path, OCTOBER, "csv")
    file.write_text(file.read_text().replace(",EUR,", ",Euros,"))
    assert "BillingCurrency" in {rule.split("-")[0] for rule in failures(verdicts(validator, file))}


def exported(project: Project, actor: Actor, folder: Path, month: date, suffix: str) -> Path:
    rows = focus_rows(charges_of(actor=actor, month=month, organization=project.organization))
    pieces: Iterator[bytes] = focus_csv(rows) if suffix == "csv" else focus_parquet(rows)
    file = folder / f"{month:%Y-%m}.{suffix}"
    file.write_bytes(b"".join(pieces))
    return file


def verdicts(validator: Path, file: Path) -> dict[str, bool]:
    """Of every rule whether it holds."""
    report, rules = file.with_name("report.xml"), file.with_name("focus_validator")
    # it looks for its list of currencies below the folder in which it is started
    rules.symlink_to(next(validator.parents[1].glob("lib/python3.12/site-packages/focus_validator")))
    run = subprocess.run(
        [validator, "--data-file", file, *OPTIONS, "--output-destination", report],
        capture_output=True,
        text=True,
        check=False,
        cwd=file.parent,
    )
    assert report.exists(), run.stderr[-2000:]
    return {
        str(case.get("name")).split(" ")[0]: case.find("failure") is None and case.find("error") is None
        for case in ET.parse(report).iter("testcase")
        if case.find("skipped") is None
    }


def failures(judged: dict[str, bool]) -> set[str]:
    return {rule for rule, holds in judged.items() if not holds}
