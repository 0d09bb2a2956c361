"""Who pays and how. The currency is chosen before the first invoice and stays."""

from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from billing.models import BillingAccount, ProjectCostCenter
from billing.money import currency_parse
from gpuaas.core.errors import Invalid
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import platform_require

TAX_MAX_BP = 10_000


@dataclass(frozen=True)
class AccountTerms:
    """tax_rate_bp: hundredths of a percent, 1900 = 19 %."""

    currency: str
    tax_rate_bp: int = 0
    tax_label: str = ""
    address: str = ""
    invoice_reference: str = ""


def account_ensure(*, organization: Organization) -> BillingAccount:
    """The organization's account, made with the portal's currency where there is none yet."""
    account, _ = BillingAccount.objects.get_or_create(
        organization=organization, defaults={"currency": settings.CURRENCY}
    )
    return account


@transaction.atomic
def account_update(*, actor: Actor, organization: Organization, terms: AccountTerms) -> BillingAccount:
    """Set all terms at once. Raises Invalid on `currency` after the first invoice, on `tax_rate` outside of 0 to 100 %."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    currency = currency_parse(terms.currency)
    if not 0 <= terms.tax_rate_bp <= TAX_MAX_BP:
        raise Invalid.field("tax_rate", "a tax rate lies between 0 and 100 percent")
    account_ensure(organization=organization)
    account = BillingAccount.objects.select_for_update().get(organization=organization)
    if account.currency != currency and account.currency_fixed_at is not None:
        raise Invalid.field(
            "currency",
            f"this organization has invoices in {account.currency} since {account.currency_fixed_at:%Y-%m-%d}; "
            "its currency can no longer change",
        )
    before = _shown(account)
    account.currency, account.tax_rate_bp = currency, terms.tax_rate_bp
    account.tax_label, account.address = terms.tax_label.strip(), terms.address.strip()
    account.invoice_reference = terms.invoice_reference.strip()
    account.save()
    audit_record(
        actor=actor, action="account.update", target=organization, before=before, after=_shown(account)
    )
    return account


@transaction.atomic
def cost_center_set(*, actor: Actor, project: Project, code: str) -> None:
    """Where the organization books this project; empty removes it."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    known = ProjectCostCenter.objects.select_for_update().filter(project=project).first()
    wanted, old = code.strip(), known.code if known else ""
    if wanted:
        ProjectCostCenter.objects.update_or_create(project=project, defaults={"code": wanted})
    elif known:
        known.delete()
    audit_record(
        actor=actor,
        action="project.cost_center",
        target=project,
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
