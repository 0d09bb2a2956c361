"""The official FOCUS validator reads months of usage, credits, corrections and taxes, in both formats, and has nothing to say."""

import json
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from django.test import Client

from billing.focus import charges_of, focus_csv, focus_parquet, focus_rows
from deploy import focus_validator
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.csv_cells import csv_cell
from tenants.actors import Actor
from tenants.models import Project, User
from tests.billing.exporting import FLAGS, NUMBERS, files, hostile_month, rated
from tests.billing.focus import DECEMBER, NOVEMBER, OCTOBER, months_stage
from tests.billing.stage import utc
from tests.hostile import NAMES, SLUGS

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


@pytest.mark.parametrize(
    ("currency", "slug", "name"),
    [
        ("JPY", "4711", "4711"),
        ("JPY", "null", "BAD_DATE"),
        ("EUR", "2026-01-01", "2026-01-01"),
        ("KWD", "1e5", "=cmd|' /C calc'!A0"),
    ],
)
def test_hostile_names_in_every_currency(
    validator: Path,
    project: Project,
    h100: Flavor,
    alice: User,
    olga: User,
    as_olga: Actor,
    tmp_path: Path,
    currency: str,
    slug: str,
    name: str,
) -> None:
    """The validator and pandas read every file as they read one of letters in EUR."""
    hostile_month(project, h100, alice, as_olga, currency=currency, slug=slug, name=name)
    judged = verdicts(validator, exported(project, as_olga, tmp_path, OCTOBER, "csv"))
    assert len(judged) > 250
    assert failures(judged) <= KNOWN
    client = Client()
    client.force_login(olga)
    texts = {file: content.decode() for file, content in files(client, slug).items()}
    texts["lines"] = rated(tmp_path, name, currency).decode()
    for file, kinds in kinds_in_pandas(validator, texts).items():
        assert {column: kind for column, kind in kinds.items() if kind not in expected(column)} == {}, file


def test_pandas_and_polars_read_every_name(validator: Path) -> None:
    names = [*NAMES, *SLUGS]
    texts = {name: f"project,other\n{csv_cell(name)},x\n" for name in names}
    assert {
        name for name, kinds in kinds_in_pandas(validator, texts).items() if kinds["project"] != "O"
    } == set()


PANDAS = """
import io, json, sys, pandas, polars
texts = json.load(sys.stdin)
TEXTS = {"project", "cost_center", "flavor", "key", "name", "SubAccountId", "SubAccountName", "BillingAccountName"}
made = {}
for name, text in texts.items():
    table = pandas.read_csv(io.StringIO(text, newline=""))
    made[name] = {column: "" if table[column].isna().all() else table[column].dtype.kind for column in table}
    other = polars.read_csv(io.BytesIO(text.encode()), try_parse_dates=True)
    made[name] |= {column: str(other[column].dtype) for column in TEXTS & set(table) if other[column].dtype != polars.String}
print(json.dumps(made))
"""


def kinds_in_pandas(validator: Path, texts: dict[str, str]) -> dict[str, dict[str, str]]:
    """Of every column, as pandas (and the reader of the validator) takes it; nothing where it is empty."""
    asked = [str(validator.with_name("python")), "-c", PANDAS]
    run = subprocess.run(asked, input=json.dumps(texts), capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = json.loads(run.stdout)
    return found


def expected(column: str) -> str:
    """pandas reads no times unless told which they are."""
    return "if" if column in NUMBERS else "bO" if column in FLAGS else "O"


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
