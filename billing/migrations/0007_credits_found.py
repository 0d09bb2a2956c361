"""Entries are found by the document whose credit they give, use or pay out."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("billing", "0006_release_2")]
    operations = [
        AddIndexConcurrently(
            "ledgerentry",
            models.Index(fields=["credit"], condition=Q(credit__isnull=False), name="ledger_credit_idx"),
        )
    ]
