"""Who pays: an organization's currency, tax and address, and its discounts."""

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import F, Q

from gpuaas.catalog.models import Flavor
from gpuaas.core.rows import Identified
from tenants.models import Organization, Project


class BillingAccount(models.Model):
    """One per organization, created on demand (`account_ensure`): an organization without a row has the defaults.

    currency_fixed_at: when the first invoice was created; the currency cannot change afterwards. tax_rate_bp:
    hundredths of a percent.
    """

    organization = models.OneToOneField(
        Organization, on_delete=models.PROTECT, primary_key=True, related_name="billing_account"
    )
    currency = models.CharField(max_length=3)
    currency_fixed_at = models.DateTimeField(null=True, blank=True)
    tax_rate_bp = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(10_000)])
    tax_label = models.CharField(max_length=60, blank=True)
    address = models.TextField(max_length=1000, blank=True)  # lines as on an envelope
    invoice_reference = models.CharField(
        max_length=100, blank=True
    )  # what the customer wants to read on the invoice
    created_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveBigIntegerField(default=1, db_default=1)  # of what operators set

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(tax_rate_bp__lte=10_000), name="billing_account_tax_rate")
        ]

    def __str__(self) -> str:
        return f"account of {self.organization}"


class ProjectCostCenter(models.Model):
    """The cost center of a project in its organization: a section of its invoice."""

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="cost_center"
    )
    code = models.CharField(max_length=60)

    def __str__(self) -> str:
        return f"{self.code} of {self.project}"


class Discount(Identified):
    """A discount on every price (flavor null) or on those of one flavor, over [valid_from, valid_to), in hundredths
    of a percent.

    A discount on a flavor takes precedence over a general one. Two on the same prices never overlap: an exclusion
    constraint (migration `no_overlap`).
    """

    organization = models.ForeignKey(Organization, on_delete=models.PROTECT, related_name="discounts")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    basis_points = models.PositiveIntegerField()
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=300, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["organization__slug", "-valid_from"]
        constraints = [
            models.CheckConstraint(
                condition=Q(valid_to__isnull=True) | Q(valid_to__gt=F("valid_from")),
                name="discount_ends_after",
            ),
            models.CheckConstraint(
                condition=Q(basis_points__gte=1, basis_points__lte=10_000), name="discount_is_a_part"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.basis_points / 100:g}% for {self.organization}"
