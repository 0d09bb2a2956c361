"""Closed documents: the database refuses to change them (migration `documents_are_closed`)."""

from datetime import date

from django.db import models
from django.db.models import F, Q

from billing.months import billing_zone
from billing.states import InvoiceKind
from gpuaas.catalog.models import Flavor
from gpuaas.catalog.states import PriceClass
from gpuaas.clusters.models import Cluster
from gpuaas.core.rows import Identified
from gpuaas.workspaces.models import Workspace
from tenants.models import Organization, Project


class InvoiceSeries(models.Model):
    """The next number of a series. Taken under a lock in the transaction that writes the document, so that there are
    no gaps."""

    name = models.CharField(max_length=16, primary_key=True)
    next_number = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.name}-{self.next_number:04d}"


class Invoice(Identified):
    """A month's document, or a credit or debit note that corrects one. Amounts are minor units, negative on credit notes.

    A month's document is an invoice, or, below zero, a credit note: what corrects nothing is of a month.
    month: the month that was closed; for a note, that of the document it corrects. Account and tax are frozen.
    content_hash: SHA-256 over the text of header and lines (sql/invoice_hash.sql).
    """

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="invoices")
    kind = models.CharField(max_length=16, choices=InvoiceKind)
    number = models.CharField(max_length=32, unique=True)
    month = models.DateField()
    currency = models.CharField(max_length=3)
    account_name = models.CharField(max_length=200)
    account_address = models.TextField(blank=True)
    account_reference = models.CharField(max_length=100, blank=True)
    tax_rate_bp = models.PositiveIntegerField()  # hundredths of a percent: 1900 = 19%
    tax_label = models.CharField(max_length=100)
    subtotal_minor = models.BigIntegerField()
    tax_minor = models.BigIntegerField()
    total_minor = models.BigIntegerField()
    line_count = models.PositiveIntegerField()
    estimated = models.BooleanField(default=False)
    reason = models.CharField(max_length=500, blank=True)
    corrects = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="corrections"
    )
    due_on = models.DateField()
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=150)
    content_hash = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-closed_at", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "month"],
                condition=Q(kind=InvoiceKind.INVOICE),
                name="invoice_once_a_month",
            ),
            models.CheckConstraint(
                condition=Q(total_minor=F("subtotal_minor") + F("tax_minor")), name="invoice_adds_up"
            ),
            models.CheckConstraint(
                condition=Q(kind=InvoiceKind.INVOICE, corrects__isnull=True)
                | (~Q(kind=InvoiceKind.INVOICE) & Q(corrects__isnull=False))
                | Q(kind=InvoiceKind.CREDIT_NOTE, total_minor__lt=0),
                name="invoice_note_corrects",
            ),
            models.CheckConstraint(condition=Q(kind__in=InvoiceKind.values), name="invoice_kind_known"),
        ]
        indexes = [models.Index(fields=["organization", "-month"], name="invoice_of_organization_idx")]

    @property
    def closed_on(self) -> date:
        """Its date: the day of the close where the months begin."""
        return self.closed_at.astimezone(billing_zone()).date()

    def __str__(self) -> str:
        return self.number


class InvoiceLine(Identified):
    """One project × flavor × meter × price class × unit price of a month, rounded once; or a correction of such a
    line.

    amount_minor is null in quarantine. charge_month is when it was used: earlier than the invoice's for late usage.
    """

    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    charge_month = models.DateField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    project_slug = models.CharField(max_length=40)
    project_name = models.CharField(max_length=100)
    cost_center = models.CharField(max_length=100, blank=True)
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    flavor_slug = models.CharField(max_length=64, blank=True)
    flavor_name = models.CharField(max_length=100, blank=True)
    gpu_type = models.CharField(max_length=64, blank=True)
    resource = models.CharField(max_length=150, blank=True)
    meter = models.CharField(max_length=32)
    price_class = models.CharField(max_length=16, choices=PriceClass)
    status = models.CharField(max_length=16)
    unit_price_micro = models.PositiveBigIntegerField(null=True)
    unit_seconds = models.BigIntegerField()
    amount_minor = models.BigIntegerField(null=True)
    estimated = models.BooleanField(default=False)
    surplus = models.BooleanField(default=False)
    text = models.CharField(max_length=300, blank=True)
    corrects = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="corrections"
    )
    share_count = models.PositiveIntegerField()

    class Meta:
        ordering = ["invoice", "position"]
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="invoice_line_position"),
        ]
        indexes = [models.Index(fields=["charge_month", "project"], name="invoice_line_charged_idx")]

    def __str__(self) -> str:
        return f"{self.project_slug} {self.flavor_slug or self.meter}"


class InvoiceShare(models.Model):
    """A workspace's or cluster's part of a line on one day. The shares of a line add up to it, in seconds and in money."""

    id = models.BigAutoField(primary_key=True)
    line = models.ForeignKey(InvoiceLine, on_delete=models.PROTECT, related_name="shares", db_index=False)
    # both null: what nobody held, as the idle GPUs of a pool that is reserved
    workspace = models.ForeignKey(
        Workspace, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    day = models.DateField()
    unit_seconds = models.BigIntegerField()
    amount_minor = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["line", "day", "workspace", "cluster"]
        constraints = [
            models.UniqueConstraint(
                fields=["line", "workspace", "day", "cluster"],
                name="invoice_share_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(workspace__isnull=True) | Q(cluster__isnull=True),
                name="invoice_share_has_one_holder",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workspace_id or self.cluster_id} on {self.day}"


class InvoiceDocument(models.Model):
    """A document's PDF, made once by a task."""

    invoice = models.OneToOneField(
        Invoice, on_delete=models.PROTECT, primary_key=True, related_name="document"
    )
    pdf = models.BinaryField()
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"PDF of {self.invoice_id}"
