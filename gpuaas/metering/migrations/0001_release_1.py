import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('metering', '0001_initial'), ('metering', '0002_initial'), ('metering', '0003_workspace_that_holds'), ('metering', '0004_meter_gap'), ('metering', '0005_stopped_and_shelved'), ('metering', '0006_idle_meter'), ('metering', '0007_clusters'), ('metering', '0008_meters_begin'), ('metering', '0009_what_ended_since'), ('metering', '0010_what_is_not_sold_is_found'), ('metering', '0011_a_meter_has_a_claim')]

    initial = True

    dependencies = [
        ('catalog', '0001_release_1'),
        ('clusters', '0001_release_1'),
        ('tenants', '0001_release_1'),
        ('workspaces', '0001_release_1'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageInterval',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.site')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.project')),
                ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to='workspaces.workspace')),
                ('cluster', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='intervals', to='clusters.cluster')),
                ('flavor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor')),
                ('consumer_uid', models.CharField(max_length=80)),
                ('consumer_name', models.CharField(max_length=253)),
                ('node', models.CharField(blank=True, max_length=253)),
                ('meter', models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU of a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held')], max_length=32)),
                ('resource_name', models.CharField(max_length=150)),
                ('quantity', models.PositiveBigIntegerField()),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('last_seen_at', models.DateTimeField()),
                ('ended_by', models.CharField(blank=True, choices=[('observed', 'observed'), ('proof_of_life', 'last proof of life')], max_length=16)),
                ('owner', models.CharField(blank=True, db_default='', max_length=320)),
                ('surplus', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'ordering': ['-started_at', '-pk'],
                'indexes': [models.Index(fields=['project', 'started_at'], name='interval_project_idx'), models.Index(fields=['project', 'ended_at'], name='interval_project_end_idx'), models.Index(condition=models.Q(('ended_at__isnull', True)), fields=['site'], name='interval_open_idx'), models.Index(condition=models.Q(('flavor__isnull', True), ('meter__startswith', 'gpu_')), fields=['resource_name'], name='interval_unsold_idx'), models.Index(condition=models.Q(('cluster__isnull', False)), fields=['cluster'], name='interval_cluster_idx')],
                'constraints': [models.UniqueConstraint(fields=('site', 'consumer_uid', 'meter', 'resource_name'), name='interval_once_per_consumer'), models.CheckConstraint(condition=models.Q(('ended_at__isnull', True), ('ended_at__gte', models.F('started_at')), _connector='OR'), name='interval_ends_after'), models.CheckConstraint(condition=models.Q(('quantity__gt', 0)), name='interval_is_positive'), models.CheckConstraint(condition=models.Q(models.Q(('cluster__isnull', True), ('workspace__isnull', False)), models.Q(('cluster__isnull', False), ('workspace__isnull', True)), _connector='OR'), name='interval_has_one_holder')],
            },
        ),
        migrations.CreateModel(
            name='SiteMeter',
            fields=[
                ('site', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='meter', serialize=False, to='catalog.site')),
                ('holder', models.CharField(blank=True, max_length=100)),
                ('claim_until', models.DateTimeField(blank=True, null=True)),
                ('cursor', models.CharField(blank=True, max_length=200)),
                ('last_event_at', models.DateTimeField(blank=True, null=True)),
                ('first_proof_at', models.DateTimeField(blank=True, null=True)),
                ('last_proof_at', models.DateTimeField(blank=True, null=True)),
                ('watching_since', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='MeterGap',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='meter_gaps', to='catalog.site')),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('closed', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['-starts_at', '-pk'],
                'constraints': [models.UniqueConstraint(fields=('site', 'starts_at'), name='meter_gap_once'), models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('starts_at'))), name='meter_gap_has_length')],
            },
        ),
        migrations.CreateModel(
            name='CrossCheck',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cross_checks', to='catalog.site')),
                ('checked_at', models.DateTimeField()),
                ('compared', models.PositiveIntegerField()),
                ('findings', models.JSONField(default=list)),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
    ]
