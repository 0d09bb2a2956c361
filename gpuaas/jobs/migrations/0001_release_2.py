import django.db.models.deletion
import django.db.models.functions.comparison
import gpuaas.core.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('jobs', '0001_jobs'),
        ('jobs', '0002_several_tasks'),
        ('jobs', '0003_staging'),
        ('jobs', '0004_staging_indexes'),
        ('jobs', '0005_templates'),
        ('jobs', '0006_preempted'),
        ('jobs', '0007_priority'),
        ('jobs', '0008_mail'),
        ('jobs', '0009_mail_index'),
        ('jobs', '0010_emptied'),
        ('jobs', '0011_kept_index'),
        ('jobs', '0012_launcher'),
        ('jobs', '0013_guests'),
        ('jobs', '0014_place_index'),
        ('jobs', '0015_runtime'),
    ]

    dependencies = [
        ('catalog', '0003_release_2'),
        ('tenants', '0005_addresses_apart'),
        ('workspaces', '0003_release_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('created_at', models.DateTimeField()),
                ('ready_at', models.DateTimeField(blank=True, null=True)),
                ('suspended_at', models.DateTimeField(blank=True, null=True)),
                ('deleted_at', models.DateTimeField(blank=True, null=True)),
                ('conditions', models.JSONField(blank=True, default=dict)),
                ('observed', models.JSONField(blank=True, default=dict)),
                ('version', models.PositiveBigIntegerField(default=1)),
                ('name', models.CharField(max_length=40)),
                ('gpus', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField()),
                ('memory_gib', models.PositiveIntegerField()),
                ('failure', models.CharField(blank=True, max_length=500)),
                ('template', models.CharField(blank=True, db_default='', default='', editable=False, max_length=40)),
                ('state', models.CharField(choices=[('staging_in', 'Staging in'), ('requested', 'Queued'), ('provisioning', 'Starting'), ('ready', 'Running'), ('suspending', 'Ending'), ('staging_out', 'Staging out'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('suspended', 'Cancelled'), ('deleting', 'Deleting'), ('deleted', 'Deleted')], default='requested', max_length=16)),
                ('image', models.CharField(max_length=255)),
                ('command', models.JSONField(blank=True, default=list)),
                ('arguments', models.JSONField(blank=True, default=list)),
                ('variables', models.JSONField(blank=True, default=dict)),
                ('volume', models.CharField(blank=True, max_length=253)),
                ('mount', models.CharField(blank=True, max_length=255)),
                ('deadline_seconds', models.PositiveIntegerField(blank=True, null=True)),
                ('retries', models.PositiveSmallIntegerField(default=0)),
                ('priority', models.CharField(choices=[('high', 'High'), ('normal', 'Normal'), ('low', 'Low')], db_default='normal', default='normal', max_length=8)),
                ('tasks', models.PositiveSmallIntegerField(db_default=1, default=1)),
                ('at_once', models.PositiveSmallIntegerField(db_default=1, default=1)),
                ('together', models.BooleanField(db_default=False, default=False)),
                ('launcher', models.CharField(blank=True, choices=[('mpi', 'MPI')], db_default='', default='', max_length=8)),
                ('runtime', models.CharField(blank=True, db_default='', default='', max_length=253)),
                ('inputs', models.JSONField(blank=True, db_default=[], default=list)),
                ('outputs', models.JSONField(blank=True, db_default=[], default=list)),
                ('staging', models.CharField(blank=True, db_default='', editable=False, max_length=3)),
                ('moving', models.BooleanField(db_default=False, default=False, editable=False)),
                ('moved', models.JSONField(blank=True, db_default={}, default=dict, editable=False)),
                ('followed', models.PositiveSmallIntegerField(blank=True, editable=False, null=True)),
                ('waiting', models.CharField(blank=True, max_length=300)),
                ('holding', models.BooleanField(default=False, editable=False)),
                ('outcome', models.CharField(blank=True, editable=False, max_length=16)),
                ('cause', models.CharField(blank=True, max_length=40)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('attempt', models.PositiveSmallIntegerField(default=0)),
                ('preempted', models.CharField(blank=True, db_default='', default='', editable=False, max_length=253)),
                ('preempted_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('preemptions', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('borrow', models.BooleanField(db_default=False, default=False)),
                ('placed_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('lenders', models.JSONField(blank=True, db_default=[], default=list, editable=False)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('mail', models.BooleanField(db_default=False, default=False)),
                ('mailed_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('emptied_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('again', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.job')),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('place', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='guests', to='workspaces.workspace')),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.gpupool')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.project')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='catalog.site')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='workspaces.workspace')),
            ],
            options={
                'ordering': ['-pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='JobLog',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log', serialize=False, to='jobs.job')),
                ('text', models.TextField(blank=True)),
                ('taken_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='JobOperation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('requested_by', models.CharField(max_length=150)),
                ('requested_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('succeeded', models.BooleanField(null=True)),
                ('summary', models.CharField(blank=True, max_length=200)),
                ('kind', models.CharField(choices=[('create', 'Start'), ('staging_in', 'Staging in'), ('staging_out', 'Staging out'), ('suspend', 'End'), ('delete', 'Deletion')], max_length=16)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='operations', to='jobs.job')),
            ],
            options={
                'ordering': ['-pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='JobStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('key', models.CharField(max_length=32)),
                ('label', models.CharField(max_length=100)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='waiting', max_length=16)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('refusals', models.PositiveIntegerField(default=0)),
                ('detail', models.CharField(blank=True, max_length=500)),
                ('operation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='jobs.joboperation')),
            ],
            options={
                'ordering': ['position'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='JobTemplate',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('description', models.CharField(blank=True, max_length=300)),
                ('order', models.JSONField(blank=True, default=dict)),
                ('locked', models.JSONField(blank=True, default=list)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='job_templates', to='tenants.project')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='JobTransition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('old', models.CharField(max_length=32)),
                ('new', models.CharField(max_length=32)),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='transitions', to='jobs.job')),
            ],
            options={
                'ordering': ['pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='TaskLog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.PositiveSmallIntegerField()),
                ('text', models.TextField(blank=True)),
                ('taken_at', models.DateTimeField()),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='task_logs', to='jobs.job')),
            ],
            options={
                'ordering': ['task'],
            },
        ),
        migrations.CreateModel(
            name='DataCredential',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('kind', models.CharField(choices=[('s3', 'S3')], default='s3', max_length=16)),
                ('access_key_id', models.CharField(max_length=128)),
                ('secret', models.TextField(editable=False)),
                ('endpoint', models.CharField(blank=True, max_length=255)),
                ('region', models.CharField(blank=True, max_length=64)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='data_credentials', to='tenants.project')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='data_credential_name_once')],
            },
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['project', '-id'], name='job_project_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'requested')), fields=['workspace', 'created_at'], name='job_queue_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state__in', ['staging_in', 'staging_out'])), fields=['workspace', 'created_at'], name='job_staging_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('holding', True)), fields=['workspace'], name='job_holding_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('moving', True)), fields=['workspace'], name='job_moving_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('place__isnull', False)), fields=['place'], name='job_place_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('mail', True), ('mailed_at', None)), fields=['finished_at'], name='job_mail_idx'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(django.db.models.functions.comparison.Coalesce('finished_at', 'deleted_at'), condition=models.Q(('emptied_at', None), ('state__in', ['deleted', 'failed', 'succeeded', 'suspended'])), name='job_kept_idx'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['staging_in', 'requested', 'provisioning', 'ready', 'suspending', 'staging_out', 'succeeded', 'failed', 'suspended', 'deleting', 'deleted'])), name='job_state_known'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('outcome__in', ['', 'failed', 'succeeded', 'suspended'])), name='job_outcome_known'),
        ),
        migrations.AddConstraint(
            model_name='joboperation',
            constraint=models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('job',), name='job_operation_one_open'),
        ),
        migrations.AddConstraint(
            model_name='jobstep',
            constraint=models.UniqueConstraint(fields=('operation', 'key'), name='job_step_once_per_operation'),
        ),
        migrations.AddConstraint(
            model_name='jobtemplate',
            constraint=models.UniqueConstraint(fields=('project', 'name'), name='job_template_name_once'),
        ),
        migrations.AddConstraint(
            model_name='tasklog',
            constraint=models.UniqueConstraint(fields=('job', 'task'), name='job_task_log_once'),
        ),
    ]
