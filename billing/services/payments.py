"""Grants, payments, payouts and write-offs, recorded by operators, each as a ledger entry."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from billing.booking import Booking, bookings_write
from billing.models import Grant, Invoice
from billing.money import amount_of, decimal_read, minor_places
from billing.selectors.balances import credits_left, invoices_open, payable_left
from billing.services.accounts import account_ensure, account_lock
from billing.services.settling import accounts_lock, open_pay
from billing.states import Account, EntryKind
from gpuaas.catalog.models import GpuType
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.models import Organization
from tenants.roles import Permission
from tenants.selectors import platform_require

AMOUNT_MAX = Decimal(1_000_000_000)


def amount_parse(value: Decimal | str | int, currency: str, *, field: str = "amount") -> int:
    """Minor units of a positive amount entered by a person. Raises Invalid on `field`."""
    amount = decimal_read(value, field=field, otherwise="an amount must be a decimal number such as 207.60")
    if not amount.is_finite() or not 0 < amount <= AMOUNT_MAX:
        raise Invalid.field(field, f"an amount must be above 0 and at most {AMOUNT_MAX:,}")
    minor = amount.scaleb(minor_places(currency))
    if minor != minor.to_integral_value():
        raise Invalid.field(field, f"{currency} has at most {minor_places(currency)} decimal places")
    return int(minor)


def grant_give(
    *,
    actor: Actor,
    organization: Organization,
    amount: Decimal | str | int,
    expires_at: datetime,
    gpu_types: Sequence[str] = (),
    note: str = "",
) -> Grant:
    """A credit in the organization's currency. `gpu_types`: slugs it may pay for; none = everything.

    Raises Invalid on `amount`, `expires_at`, `gpu_types` or `note`.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now, text = clock.now(), note.strip()
    types = _grant_require(expires_at, now, text, gpu_types)
    with transaction.atomic():
        account = account_lock(organization=organization)
        minor = amount_parse(amount, account.currency)
        grant = Grant.objects.create(
            organization=organization,
            currency=account.currency,
            amount_minor=minor,
            note=text,
            expires_at=expires_at,
            created_at=now,
            created_by=actor.name,
        )
        grant.gpu_types.set(types)
        amounts = {Account.GRANTS_GIVEN: minor, Account.GRANTS: -minor}
        kind = EntryKind.GRANT
        _book(
            actor, Booking(organization.pk, kind, account.currency, str(grant), amounts, None, grant.pk), now
        )
        after = {"amount": str(amount_of(minor, account.currency)), "expires_at": expires_at.isoformat()}
        after["gpu_types"] = ", ".join(sorted(gpu_types))
        audit_record(actor=actor, action="grant.give", target=grant, organization=organization, after=after)
    return grant


def _grant_require(expires_at: datetime, now: datetime, note: str, gpu_types: Sequence[str]) -> list[GpuType]:
    if expires_at <= now:
        raise Invalid.field(
            "expires_at", "a grant that has expired pays for nothing; choose a time in the future"
        )
    clock.year_require(expires_at, field="expires_at")
    if len(note) > 200:
        raise Invalid.field("note", "write at most 200 characters")
    types = list(GpuType.objects.filter(slug__in=gpu_types))
    unknown = sorted(set(gpu_types) - {row.slug for row in types})
    if unknown:
        raise Invalid.field("gpu_types", f"there is no GPU type {', '.join(unknown)}")
    return types


def grants_expire(*, now: datetime | None = None) -> int:
    """Removes what is left of expired grants; returns how many."""
    moment, done = now or clock.now(), 0
    left = F("used_minor") + F("expired_minor")
    due = Grant.objects.filter(expires_at__lte=moment, amount_minor__gt=left)
    for pk in due.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            grant = due.select_for_update(skip_locked=True).filter(pk=pk).first()
            if grant is None:
                continue
            rest = grant.left_minor
            Grant.objects.filter(pk=pk).update(expired_minor=F("expired_minor") + rest)
            amounts = {Account.GRANTS: rest, Account.GRANTS_GIVEN: -rest}
            kind, text = EntryKind.GRANT_EXPIRY, f"{grant} expired"
            booking = Booking(grant.organization_id, kind, grant.currency, text, amounts, None, grant.pk)
            _book(SYSTEM, booking, moment)
            done += 1
    return done


def payment_record(
    *, actor: Actor, organization: Organization, amount: Decimal | str | int, note: str = ""
) -> None:
    """Records money received. It pays open invoices, the oldest first; the remainder pays future ones. Raises Invalid
    on `amount`."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now, said = clock.now(), note.strip()[:200]
    with transaction.atomic():
        account = account_lock(organization=organization)
        minor = amount_parse(amount, account.currency)
        amounts = {Account.CASH: minor, Account.PREPAID: -minor}
        text = said or "payment received"
        _book(actor, Booking(organization.pk, EntryKind.PREPAID, account.currency, text, amounts), now)
        open_pay(organizations=[organization.pk], now=now, by=actor.name)
        audit_record(
            actor=actor,
            action="payment.record",
            target=organization,
            organization=organization,
            after={"amount": str(amount_of(minor, account.currency)), "note": said},
        )


def payout_record(
    *, actor: Actor, organization: Organization, amount: Decimal | str | int, note: str = ""
) -> None:
    """Records money paid back: from credits, the oldest first, then from what was paid in advance; one entry for each.

    Raises Invalid on `amount`, also above what can be paid out.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    now, said = clock.now(), note.strip()[:200] or "paid out"
    with transaction.atomic():
        account = account_lock(organization=organization)
        open_pay(organizations=[organization.pk], now=now, by=actor.name)
        currency, minor = account.currency, amount_parse(amount, account.currency)
        payable = payable_left(organization=organization, currency=currency)
        if minor > payable:
            raise Invalid.field(
                "amount",
                f"{amount_of(payable, currency)} {currency} can be paid out: what of credits and payments is not used, "
                "and never more than was received",
            )
        left, bookings = minor, []
        for credit in credits_left(organizations=[organization.pk]):
            part = min(left, credit.left if credit.currency == currency else 0)
            left -= part
            amounts, text = {Account.CREDIT: part, Account.CASH: -part}, f"{said}: credit of {credit.number}"
            bookings.append(
                Booking(organization.pk, EntryKind.PAYOUT, currency, text, amounts, credit_id=credit.document)
            )
        amounts = {Account.PREPAID: left, Account.CASH: -left}
        bookings.append(Booking(organization.pk, EntryKind.PAYOUT, currency, said, amounts))
        bookings_write(bookings, now=now, by=actor.name)
        audit_record(
            actor=actor,
            action="payout.record",
            target=organization,
            organization=organization,
            after={"amount": str(amount_of(minor, currency)), "note": said},
        )


def write_off(*, actor: Actor, invoice: Invoice, reason: str, amount: Decimal | str | int = "") -> None:
    """Writes off the open amount of an invoice, or a part of it. Raises Invalid on `amount` (above the open amount)
    or `reason`."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    explanation = reason.strip()
    if not 0 < len(explanation) <= 300:
        raise Invalid.field("reason", "give a reason of 1 to 300 characters")
    with transaction.atomic():
        account_ensure(organization=invoice.organization)
        accounts_lock([invoice.organization_id])
        still_open = invoices_open(invoices=[invoice.pk]).get(invoice.pk, 0)
        minor = amount_parse(amount, invoice.currency) if amount != "" else still_open
        if minor > still_open or minor <= 0:
            left = amount_of(max(still_open, 0), invoice.currency)
            raise Invalid.field(
                "amount",
                f"{left} {invoice.currency} of {invoice.number} are open; no more can be written off",
            )
        amounts = {Account.WRITE_OFF: minor, Account.RECEIVABLE: -minor}
        text = f"{invoice.number}: {explanation}"
        kind = EntryKind.WRITE_OFF
        booking = Booking(invoice.organization_id, kind, invoice.currency, text, amounts, invoice.pk)
        _book(actor, booking, clock.now())
        audit_record(
            actor=actor,
            action="invoice.write_off",
            target=invoice,
            organization=invoice.organization,
            after={"amount": str(amount_of(minor, invoice.currency)), "reason": explanation},
        )


def _book(actor: Actor, booking: Booking, now: datetime) -> None:
    bookings_write([booking], now=now, by=actor.name)
