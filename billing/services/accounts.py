"""Payers: account and cost centers. The currency is chosen before the first invoice and then fixed."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from billing.models import BillingAccount, Budget, LedgerPosting, Measure, ProjectCostCenter
from billing.money import currency_parse
from billing.services.discounts import basis_points_parse
from gpuaas.clusters.models import ScalingPolicy
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import version_require
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import platform_require

TAX_MAX_BP = 10_000
# letters of each field, as its column holds
CODE_LONGEST = 60
LONGEST = {"tax_label": 60, "address": 1000, "invoice_reference": 100}


@dataclass(frozen=True)
class AccountTerms:
    """tax_rate_bp: hundredths of a percent, 1900 = 19%."""

    currency: str
    tax_rate_bp: int = 0
    tax_label: str = ""
    address: str = ""
    invoice_reference: str = ""


def account_ensure(*, organization: Organization) -> BillingAccount:
    """The organization's account; creates it with the portal's currency if there is none yet."""
    account, _ = BillingAccount.objects.get_or_create(
        organization=organization, defaults={"currency": settings.CURRENCY}
    )
    return account


def account_lock(*, organization: Organization) -> BillingAccount:
    """As `account_ensure`, locked, and as it is once others have changed it."""
    account_ensure(organization=organization)
    return BillingAccount.objects.select_for_update().get(organization=organization)


def accounts_make(organizations: Sequence[uuid.UUID], *, now: datetime) -> None:
    """Accounts of those that have none, in the portal's currency, which their first invoice fixes."""
    known = BillingAccount.objects.in_bulk(list(organizations))
    rows = [
        BillingAccount(organization_id=pk, currency=settings.CURRENCY, currency_fixed_at=now)
        for pk in organizations
        if pk not in known
    ]
    BillingAccount.objects.bulk_create(rows, ignore_conflicts=True)


@transaction.atomic
def account_update(
    *, actor: Actor, organization: Organization, terms: AccountTerms, expected_version: int | None = None
) -> BillingAccount:
    """Sets all terms at once. Raises StaleVersion if they have changed since `expected_version`; Invalid on `currency` after the
    first invoice or while there is money, a budget or a policy's cap in the other one, on `tax_rate` outside 0 to 100
    percent."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    currency = currency_parse(terms.currency)
    if not 0 <= terms.tax_rate_bp <= TAX_MAX_BP:
        raise Invalid.field("tax_rate", "a tax rate must be between 0 and 100 percent")
    for name, most in LONGEST.items():
        if len(getattr(terms, name).strip()) > most:
            raise Invalid.field(name, f"write at most {most} characters")
    account = account_lock(organization=organization)
    version_require(account.version, expected_version, "account")
    if account.currency != currency:
        _currency_require_free(account)
    before = _shown(account)
    account.currency, account.tax_rate_bp = currency, terms.tax_rate_bp
    account.tax_label, account.address = terms.tax_label.strip(), terms.address.strip()
    account.invoice_reference = terms.invoice_reference.strip()
    account.version += 1
    account.save()
    audit_record(
        actor=actor,
        action="account.update",
        target=organization,
        organization=organization,
        before=before,
        after=_shown(account),
    )
    return account


def _currency_require_free(account: BillingAccount) -> None:
    """Nothing would pay from money in a currency that the organization no longer has, and budgets and caps of policies are in it."""
    old = account.currency
    if account.currency_fixed_at is not None:
        raise Invalid.field(
            "currency",
            f"this organization has had invoices in {old} since "
            f"{account.currency_fixed_at:%Y-%m-%d}; its currency can no longer change",
        )
    postings = LedgerPosting.objects.filter(entry__organization=account.organization_id, entry__currency=old)
    sums = postings.order_by().values_list("account").annotate(sum=Sum("amount_minor"))
    if sums.exclude(sum=0).exists():
        raise Invalid.field(
            "currency",
            f"this organization has payments or grants in {old}, which pay for nothing in another currency; reverse "
            "or pay them out first",
        )
    budgets = Budget.objects.filter(
        organization=account.organization_id, measure=Measure.MONEY, ended_at__isnull=True
    )
    _amounts_require_none(f"budgets in {old}", budgets.values_list("name", flat=True))
    policies = ScalingPolicy.objects.filter(
        pool__cluster__project__organization=account.organization_id,
        pool__cluster__deleted_at__isnull=True,
        money_month__isnull=False,
    )
    _amounts_require_none(
        f"scaling policies with caps in {old}", policies.values_list("pool__cluster__name", flat=True)
    )


def _amounts_require_none(what: str, names: Iterable[str]) -> None:
    if named := ", ".join(islice(names, 3)):
        raise Invalid.field(
            "currency",
            f"this organization has {what} ({named}), whose amounts mean nothing in another currency; remove them first",
        )


def tax_rate_parse(value: Decimal | str) -> int:
    """Hundredths of a percent, 0 included. Raises Invalid on `tax_rate`."""
    return basis_points_parse(value, field="tax_rate", what="a tax rate", zero=True)


@transaction.atomic
def cost_center_set(*, actor: Actor, project: Project, code: str) -> None:
    """Sets the project's cost center; an empty code removes it."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    known = ProjectCostCenter.objects.select_for_update().filter(project=project).first()
    wanted, old = code.strip(), known.code if known else ""
    if len(wanted) > CODE_LONGEST:
        raise Invalid.field("cost_center", f"write at most {CODE_LONGEST} characters")
    if wanted:
        ProjectCostCenter.objects.update_or_create(project=project, defaults={"code": wanted})
    elif known:
        known.delete()
    audit_record(
        actor=actor,
        action="project.cost_center",
        target=project,
        project=project,
        before={"cost_center": old},
        after={"cost_center": wanted},
    )


def _shown(account: BillingAccount) -> dict[str, object]:
    return {
        "currency": account.currency,
        "tax_rate_bp": account.tax_rate_bp,
        "tax_label": account.tax_label,
        "address": account.address,
        "invoice_reference": account.invoice_reference,
    }
