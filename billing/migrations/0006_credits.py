"""A month below zero is a credit note that corrects no single document; credits have an account, and entries name theirs."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

KINDS = [
    ("document", "Document"),
    ("grant", "Grant"),
    ("grant_use", "Grant used"),
    ("grant_expiry", "Grant expired"),
    ("prepaid", "Payment received"),
    ("prepaid_use", "Payment used"),
    ("credit", "Credit given"),
    ("credit_use", "Credit used"),
    ("payout", "Payout"),
    ("reversal", "Payment reversed"),
    ("write_off", "Write-off"),
]
ACCOUNTS = [
    ("receivable", "Receivable"),
    ("revenue", "Revenue"),
    ("tax", "Tax"),
    ("prepaid", "Prepaid"),
    ("credit", "Credit"),
    ("cash", "Received"),
    ("grants", "Grants"),
    ("grants_given", "Grants given"),
    ("write_off", "Written off"),
]


class Migration(migrations.Migration):
    dependencies = [("billing", "0005_moved_usage")]
    operations = [
        migrations.AddField(
            "ledgerentry",
            "credit",
            models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="credit_entries",
                to="billing.invoice",
            ),
        ),
        migrations.AlterField("ledgerentry", "kind", models.CharField(choices=KINDS, max_length=16)),
        migrations.AlterField("ledgerposting", "account", models.CharField(choices=ACCOUNTS, max_length=16)),
        migrations.RemoveConstraint("ledgerposting", "ledger_account_known"),
        migrations.AddConstraint(
            "ledgerposting",
            models.CheckConstraint(
                condition=Q(account__in=[name for name, _ in ACCOUNTS]), name="ledger_account_known"
            ),
        ),
        migrations.RemoveConstraint("invoice", "invoice_note_corrects"),
        migrations.AddConstraint(
            "invoice",
            models.CheckConstraint(
                condition=Q(kind="invoice", corrects__isnull=True)
                | (~Q(kind="invoice") & Q(corrects__isnull=False))
                | Q(kind="credit_note", total_minor__lt=0),
                name="invoice_note_corrects",
            ),
        ),
    ]
