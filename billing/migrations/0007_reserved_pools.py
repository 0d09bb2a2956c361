"""Idle GPUs of a reserved pool are charged by the rate card: the reservation names a flavor instead of a price. No row was ever made."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0006_budgets'),
        ('catalog', '0005_offers_round'),
    ]

    operations = [
        migrations.RemoveField(model_name='poolreservation', name='price_micro'),
        migrations.AddField(
            model_name='poolreservation',
            name='flavor',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor'),
        ),
        migrations.AddField(
            model_name='poolreservation',
            name='note',
            field=models.CharField(blank=True, max_length=300, default=''),
            preserve_default=False,
        ),
    ]
