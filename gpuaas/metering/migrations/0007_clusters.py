"""An interval belongs to a workspace or to a cluster, never both; the rows there are stay as they are."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0005_offers_round'),
        ('clusters', '0002_versions_stay'),
        ('metering', '0006_idle_meter'),
        ('tenants', '0002_audit_append_only'),
        ('workspaces', '0006_machines'),
    ]

    operations = [
        migrations.AddField(
            model_name='usageinterval',
            name='cluster',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to='clusters.cluster'),
        ),
        migrations.AlterField(
            model_name='usageinterval',
            name='workspace',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to='workspaces.workspace'),
        ),
        migrations.AddIndex(
            model_name='usageinterval',
            index=models.Index(condition=models.Q(('cluster__isnull', False)), fields=['cluster'], name='interval_cluster_idx'),
        ),
        migrations.AddConstraint(
            model_name='usageinterval',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cluster__isnull', True), ('workspace__isnull', False)), models.Q(('cluster__isnull', False), ('workspace__isnull', True)), _connector='OR'), name='interval_has_one_holder'),
        ),
    ]
