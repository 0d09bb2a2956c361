import django.db.models.deletion
import gpuaas.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('clusters', '0004_deleted_after'),
        ('clusters', '0005_workers_of_queues'),
        ('clusters', '0006_logins'),
        ('clusters', '0007_use_of_logins'),
        ('clusters', '0008_steps_that_move'),
        ('clusters', '0009_jobs'),
        ('clusters', '0010_jobs_gone'),
        ('clusters', '0011_job_files'),
        ('clusters', '0012_open_jobs_index'),
        ('clusters', '0013_jobs_emptied'),
        ('clusters', '0014_kept_jobs_index'),
    ]

    dependencies = [
        ('clusters', '0003_holdings_that_ended'),
        ('tenants', '0005_addresses_apart'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='deleted_after',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='cluster',
            name='enforce_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='cluster',
            name='logins',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='cluster',
            name='moves_files',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name='cluster',
            name='takes_jobs',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name='clusteroperationstep',
            name='moved_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='clusterqueue',
            name='workers',
            field=models.JSONField(db_default={}, default=dict),
        ),
        migrations.CreateModel(
            name='ClusterLogin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=32)),
                ('uid', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cluster_logins', to='tenants.project')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='ClusterJob',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('script', models.TextField()),
                ('partition', models.CharField(max_length=20)),
                ('nodes', models.PositiveIntegerField()),
                ('tasks', models.PositiveIntegerField()),
                ('gpus_per_node', models.PositiveIntegerField()),
                ('cpus_per_task', models.PositiveIntegerField()),
                ('memory_gib', models.PositiveIntegerField(blank=True, null=True)),
                ('minutes', models.PositiveIntegerField(blank=True, null=True)),
                ('inputs', models.JSONField(blank=True, db_default=[], default=list)),
                ('outputs', models.JSONField(blank=True, db_default=[], default=list)),
                ('staging', models.CharField(blank=True, db_default='', default='', editable=False, max_length=3)),
                ('mover', models.UUIDField(blank=True, editable=False, null=True)),
                ('mover_slurm_id', models.PositiveBigIntegerField(blank=True, editable=False, null=True)),
                ('moved', models.JSONField(blank=True, db_default={}, default=dict, editable=False)),
                ('state', models.CharField(choices=[('staging_in', 'Staging in'), ('queued', 'Queued'), ('pending', 'Pending'), ('running', 'Running'), ('staging_out', 'Staging out'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=16)),
                ('slurm_id', models.PositiveBigIntegerField(blank=True, null=True)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('log', models.TextField(blank=True)),
                ('log_taken_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('offered_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('cancel_asked_at', models.DateTimeField(blank=True, null=True)),
                ('seen_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('gone_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('emptied_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to='clusters.cluster')),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('login', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='clusters.clusterlogin')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='ClusterUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('gpu_seconds', models.PositiveBigIntegerField()),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='use', to='clusters.cluster')),
                ('login', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='use', to='clusters.clusterlogin')),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.AddConstraint(
            model_name='clusterlogin',
            constraint=models.UniqueConstraint(fields=('project', 'user'), name='cluster_login_once_per_person'),
        ),
        migrations.AddConstraint(
            model_name='clusterlogin',
            constraint=models.UniqueConstraint(fields=('project', 'name'), name='cluster_login_name_once'),
        ),
        migrations.AddConstraint(
            model_name='clusterlogin',
            constraint=models.UniqueConstraint(fields=('project', 'uid'), name='cluster_login_uid_once'),
        ),
        migrations.AddConstraint(
            model_name='clusterlogin',
            constraint=models.CheckConstraint(condition=models.Q(('uid__gte', 20001), ('uid__lte', 59999)), name='cluster_login_uid_in_range'),
        ),
        migrations.AddIndex(
            model_name='clusterjob',
            index=models.Index(fields=['cluster', '-id'], name='cluster_job_idx'),
        ),
        migrations.AddIndex(
            model_name='clusterjob',
            index=models.Index(condition=models.Q(('state__in', ['pending', 'queued', 'running', 'staging_in', 'staging_out'])), fields=['cluster'], name='cluster_job_open_idx'),
        ),
        migrations.AddIndex(
            model_name='clusterjob',
            index=models.Index(condition=models.Q(('emptied_at', None), ('state__in', ['cancelled', 'failed', 'succeeded'])), fields=['finished_at'], name='cluster_job_kept_idx'),
        ),
        migrations.AddConstraint(
            model_name='clusterjob',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['staging_in', 'queued', 'pending', 'running', 'staging_out', 'succeeded', 'failed', 'cancelled'])), name='cluster_job_state_known'),
        ),
        migrations.AddConstraint(
            model_name='clusteruse',
            constraint=models.UniqueConstraint(fields=('cluster', 'day', 'login'), name='cluster_use_once_per_day'),
        ),
    ]
