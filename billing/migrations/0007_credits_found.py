"""One document of a month, whatever its kind, and credits by their document: indexes made beside the writers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

ONCE = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "{name}" ON "billing_invoice" ("organization_id", "month") WHERE {which}
"""
DROP = 'DROP INDEX CONCURRENTLY IF EXISTS "{name}"'
NEW = {"name": "document_once_a_month", "which": '"corrects_id" IS NULL'}
OLD = {"name": "invoice_once_a_month", "which": "\"kind\" = 'invoice'"}


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0006_credits")]
    operations = [
        AddIndexConcurrently(
            "ledgerentry",
            models.Index(fields=["credit"], condition=Q(credit__isnull=False), name="ledger_credit_idx"),
        ),
        migrations.RunSQL(
            ONCE.format(**NEW),
            DROP.format(**NEW),
            state_operations=[
                migrations.AddConstraint(
                    "invoice",
                    models.UniqueConstraint(
                        fields=["organization", "month"],
                        condition=Q(corrects__isnull=True),
                        name="document_once_a_month",
                    ),
                )
            ],
        ),
        migrations.RunSQL(
            DROP.format(**OLD),
            ONCE.format(**OLD),
            state_operations=[migrations.RemoveConstraint("invoice", "invoice_once_a_month")],
        ),
    ]
