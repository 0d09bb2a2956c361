import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('gpustats', '0001_initial'),
        ('gpustats', '0002_months'),
    ]

    dependencies = [
        ('catalog', '0003_release_2'),
        ('tenants', '0005_addresses_apart'),
        ('workspaces', '0003_release_2'),
    ]

    operations = [
        migrations.CreateModel(
            name='GpuHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('seconds', models.PositiveBigIntegerField()),
                ('measured_seconds', models.PositiveBigIntegerField()),
                ('busy_seconds', models.FloatField()),
                ('utilization_max', models.FloatField(null=True)),
                ('memory_mib_seconds', models.PositiveBigIntegerField()),
                ('memory_max_mib', models.PositiveIntegerField(null=True)),
                ('energy_mj', models.PositiveBigIntegerField()),
                ('gpu_type', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.gputype')),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.project')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workspaces.workspace')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'hour'], name='gpu_hour_project_idx')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'gpu_type', 'hour'), name='gpu_hour_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='GpuMonth',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('starts_at', models.DateTimeField()),
                ('held_seconds', models.PositiveBigIntegerField()),
                ('allocated_seconds', models.PositiveBigIntegerField()),
                ('gpu_type', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.gputype')),
                ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'starts_at', 'gpu_type'), name='gpu_month_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='GpuSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node', models.CharField(max_length=253)),
                ('device', models.CharField(max_length=64)),
                ('index', models.CharField(blank=True, max_length=16)),
                ('instance', models.CharField(blank=True, max_length=16)),
                ('profile', models.CharField(blank=True, max_length=32)),
                ('namespace', models.CharField(blank=True, max_length=253)),
                ('pod', models.CharField(blank=True, max_length=253)),
                ('container', models.CharField(blank=True, max_length=253)),
                ('at', models.DateTimeField()),
                ('seconds', models.PositiveIntegerField(default=0)),
                ('utilization', models.FloatField(null=True)),
                ('memory_used_mib', models.PositiveIntegerField(null=True)),
                ('memory_free_mib', models.PositiveIntegerField(null=True)),
                ('power_watts', models.FloatField(null=True)),
                ('temperature', models.SmallIntegerField(null=True)),
                ('energy_mj', models.PositiveBigIntegerField(null=True)),
                ('spent_mj', models.PositiveBigIntegerField(null=True)),
                ('nvlink', models.PositiveBigIntegerField(null=True)),
                ('xid', models.PositiveIntegerField(null=True)),
                ('gpu_type', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.gputype')),
                ('project', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.project')),
                ('site', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='catalog.site')),
                ('workspace', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workspaces.workspace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('workspace__isnull', False)), fields=['workspace', 'at'], name='gpu_sample_workspace_idx'), models.Index(condition=models.Q(('project__isnull', False)), fields=['project', 'at'], name='gpu_sample_project_idx'), models.Index(fields=['site', 'node', 'at'], name='gpu_sample_node_idx'), django.contrib.postgres.indexes.BrinIndex(autosummarize=True, fields=['at'], name='gpu_sample_at_idx')],
                'constraints': [models.UniqueConstraint(fields=('site', 'device', 'instance', 'namespace', 'pod', 'at'), name='gpu_sample_once')],
            },
        ),
    ]
