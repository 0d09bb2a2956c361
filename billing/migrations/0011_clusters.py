"""Shares of clusters beside those of workspaces; documents that are closed stay as they are."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("billing", "0010_how_far_a_close_has_come"),
        ('clusters', '0002_versions_stay'),
        ('workspaces', '0006_machines'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='invoiceshare',
            options={'ordering': ['line', 'day', 'workspace', 'cluster']},
        ),
        migrations.RemoveConstraint(
            model_name='invoiceshare',
            name='invoice_share_once',
        ),
        migrations.AddField(
            model_name='invoiceshare',
            name='cluster',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='clusters.cluster'),
        ),
        migrations.AddConstraint(
            model_name='invoiceshare',
            constraint=models.UniqueConstraint(fields=('line', 'workspace', 'day', 'cluster'), name='invoice_share_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='invoiceshare',
            constraint=models.CheckConstraint(condition=models.Q(('workspace__isnull', True), ('cluster__isnull', True), _connector='OR'), name='invoice_share_has_one_holder'),
        ),
        migrations.AlterField(
            model_name='budgetalert',
            name='action',
            field=models.CharField(choices=[('notify', 'Notify'), ('block', 'Block new requests'), ('suspend', 'Suspend workspaces and clusters')], max_length=16),
        ),
        migrations.AlterField(
            model_name='budgetthreshold',
            name='action',
            field=models.CharField(choices=[('notify', 'Notify'), ('block', 'Block new requests'), ('suspend', 'Suspend workspaces and clusters')], max_length=16),
        ),
    ]
