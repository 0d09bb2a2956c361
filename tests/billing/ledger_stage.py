"""One of each thing that is recorded of money, as tests of addresses need it."""

from typing import Any

from billing.models import Invoice
from tenants.models import Project
from tests.billing.stage import (
    grant_stage,
    payment_stage,
    payout_stage,
    usage_import_stage,
    usage_write_off_stage,
    write_off_stage,
)


def ledger_stage(invoice: Invoice, project: Project) -> dict[str, Any]:
    """Path parameters by name."""
    return {
        "number": invoice.number,
        "written": write_off_stage(invoice),
        "payment": payment_stage(invoice.organization),
        "payout": payout_stage(invoice.organization),
        "grant": grant_stage(invoice.organization),
        "unpriced": usage_write_off_stage().pk,
        "usage_import": usage_import_stage(project),
    }
