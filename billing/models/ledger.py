"""Append-only double entry, and grants. Balances are sums of postings, never stored."""

from decimal import Decimal

from django.db import models
from django.db.models import F, Q

from billing.models.invoices import Invoice
from billing.money import amount_of
from billing.states import Account, EntryKind
from gpuaas.catalog.models import GpuType
from gpuaas.core.rows import Identified
from tenants.models import Organization


class Grant(Identified):
    """A credit that pays for documents until it expires, for chosen GPU types or (none chosen) for everything.

    used_minor and expired_minor together never exceed the amount (a check of the database). What a credit note
    returns no longer counts as used; what was taken back counts as expired.
    """

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="grants")
    currency = models.CharField(max_length=3)
    amount_minor = models.PositiveBigIntegerField()
    used_minor = models.PositiveBigIntegerField(default=0)
    expired_minor = models.PositiveBigIntegerField(default=0)
    gpu_types = models.ManyToManyField(GpuType, blank=True, related_name="+")
    note = models.CharField(max_length=200, blank=True)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["expires_at", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="grant_is_positive"),
            models.CheckConstraint(
                condition=Q(amount_minor__gte=F("used_minor") + F("expired_minor")),
                name="grant_not_overdrawn",
            ),
        ]

    def __str__(self) -> str:
        return self.note or f"grant of {self.created_at:%Y-%m-%d}"

    @property
    def left_minor(self) -> int:
        return self.amount_minor - self.used_minor - self.expired_minor


class LedgerEntry(Identified):
    """An event whose postings add up to zero (checked by the database at commit). Never changed; corrections are new
    entries."""

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="ledger")
    kind = models.CharField(max_length=16, choices=EntryKind)
    currency = models.CharField(max_length=3)
    at = models.DateTimeField()
    by = models.CharField(max_length=150)
    text = models.CharField(max_length=300)
    invoice = models.ForeignKey(
        Invoice, on_delete=models.PROTECT, null=True, blank=True, related_name="entries"
    )
    grant = models.ForeignKey(Grant, on_delete=models.PROTECT, null=True, blank=True, related_name="entries")
    # whose credit is given, used or paid out
    credit = models.ForeignKey(
        Invoice,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="credit_entries",
        db_index=False,
    )
    # of a reversal: the payment, payout, grant or write-off that it takes back, once
    reverses = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="reversal"
    )
    posting_count = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [
            models.Index(fields=["credit"], condition=Q(credit__isnull=False), name="ledger_credit_idx")
        ]

    def __str__(self) -> str:
        return self.text

    @property
    def amount(self) -> Decimal:
        """The amount moved, whatever the accounts: the sum of its debits."""
        minor = sum(max(row.amount_minor, 0) for row in self.postings.all())
        return amount_of(minor, self.currency)

    @property
    def is_reversible(self) -> bool:
        kinds = (EntryKind.PREPAID, EntryKind.GRANT, EntryKind.WRITE_OFF, EntryKind.PAYOUT)
        return self.kind in kinds and getattr(self, "reversal", None) is None


class LedgerPosting(models.Model):
    """Debit plus, credit minus, in minor units."""

    id = models.BigAutoField(primary_key=True)
    entry = models.ForeignKey(LedgerEntry, on_delete=models.PROTECT, related_name="postings")
    account = models.CharField(max_length=16, choices=Account)
    amount_minor = models.BigIntegerField()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["entry", "account"], name="ledger_account_once_an_entry"),
            models.CheckConstraint(condition=~Q(amount_minor=0), name="ledger_posting_is_not_zero"),
            models.CheckConstraint(condition=Q(account__in=Account.values), name="ledger_account_known"),
        ]

    def __str__(self) -> str:
        return f"{self.account} {self.amount_minor}"
