import django.db.models.deletion
import gpuaas.core.ids
import gpuaas.environments.models
from django.conf import settings
from django.db import migrations, models


# A version of a kind is never changed.
FORWARD = """
CREATE FUNCTION environments_kindversion_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a version of a kind is never changed: add another';
END $$;
CREATE TRIGGER environments_kindversion_stays
BEFORE UPDATE OF kind_id, number, document ON environments_kindversion
FOR EACH ROW EXECUTE FUNCTION environments_kindversion_stays();
"""
BACKWARD = """
DROP TRIGGER environments_kindversion_stays ON environments_kindversion;
DROP FUNCTION environments_kindversion_stays();
"""


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('environments', '0001_environments'),
        ('environments', '0002_versions_stay'),
        ('environments', '0003_door'),
        ('environments', '0004_labels'),
        ('environments', '0005_label_once'),
        ('environments', '0006_idle'),
        ('environments', '0007_access'),
        ('environments', '0008_ssh_key'),
        ('environments', '0009_tokens'),
        ('environments', '0010_workers'),
        ('environments', '0011_moved_at'),
    ]

    dependencies = [
        ('catalog', '0003_release_2'),
        ('tenants', '0005_addresses_apart'),
        ('workspaces', '0003_release_2'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Environment',
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
                ('state', models.CharField(choices=[('requested', 'Requested'), ('provisioning', 'Creating'), ('ready', 'Ready'), ('suspending', 'Stopping'), ('suspended', 'Stopped'), ('resuming', 'Starting'), ('failed', 'Failed'), ('deleting', 'Deleting'), ('deleted', 'Deleted')], default='requested', max_length=16)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('home_gib', models.PositiveIntegerField()),
                ('workers', models.PositiveIntegerField(db_default=0, default=0)),
                ('worker_gpus', models.PositiveIntegerField(db_default=0, default=0)),
                ('worker_vcpus', models.PositiveIntegerField(db_default=0, default=0)),
                ('worker_memory_gib', models.PositiveIntegerField(db_default=0, default=0)),
                ('label', models.CharField(default=gpuaas.environments.models.label_new, editable=False, max_length=32, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('idle_hours', models.PositiveIntegerField(blank=True, null=True)),
                ('kept_until', models.DateTimeField(blank=True, null=True)),
                ('access', models.CharField(choices=[('private', 'Private'), ('workspace', 'Workspace'), ('organization', 'Organization'), ('public', 'Public with a key')], db_default='workspace', default='workspace', max_length=16)),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.gpupool')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='environments', to='tenants.project')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='environments', to='catalog.site')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='environments', to='workspaces.workspace')),
            ],
            options={
                'ordering': ['-pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='DoorKey',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('prefix', models.CharField(max_length=12)),
                ('secret_hash', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('environment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='environments.environment')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='EnvironmentCounter',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('environment', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='counter', serialize=False, to='environments.environment')),
                ('requests', models.BigIntegerField(default=0)),
                ('tokens_in', models.BigIntegerField(default=0)),
                ('tokens_out', models.BigIntegerField(default=0)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('moved_at', models.DateTimeField(blank=True, null=True)),
                ('failure', models.CharField(blank=True, max_length=300)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='EnvironmentLog',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('environment', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log', serialize=False, to='environments.environment')),
                ('worker', models.PositiveIntegerField(db_default=0, default=0)),
                ('asked', models.PositiveIntegerField(db_default=0, default=0)),
                ('text', models.TextField(blank=True)),
                ('taken_at', models.DateTimeField(blank=True, null=True)),
                ('failure', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='EnvironmentUse',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('environment', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='use', serialize=False, to='environments.environment')),
                ('used_at', models.DateTimeField()),
                ('since', models.DateTimeField()),
                ('unknown', models.CharField(blank=True, max_length=300)),
                ('stop_at', models.DateTimeField(blank=True, null=True)),
                ('stopped_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='DoorPass',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session_key', models.CharField(max_length=40)),
                ('proof', models.CharField(max_length=128)),
                ('browser', models.CharField(max_length=64)),
                ('ticket', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ('cookie', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ('created_at', models.DateTimeField()),
                ('key', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='passes', to='environments.doorkey')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('environment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passes', to='environments.environment')),
            ],
        ),
        migrations.CreateModel(
            name='EnvironmentKind',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.CharField(max_length=40, unique=True)),
                ('name', models.CharField(max_length=100)),
                ('description', models.CharField(blank=True, max_length=300)),
                ('state', models.CharField(choices=[('active', 'Active'), ('retired', 'Retired')], default='active', max_length=16)),
                ('version', models.PositiveBigIntegerField(default=1)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['slug'],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['active', 'retired'])), name='environment_kind_state_known')],
            },
        ),
        migrations.CreateModel(
            name='EnvironmentOperation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('requested_by', models.CharField(max_length=150)),
                ('requested_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('succeeded', models.BooleanField(null=True)),
                ('summary', models.CharField(blank=True, max_length=200)),
                ('kind', models.CharField(choices=[('create', 'Creation'), ('suspend', 'Stop'), ('resume', 'Start'), ('restart', 'Restart'), ('delete', 'Deletion')], max_length=16)),
                ('environment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='operations', to='environments.environment')),
            ],
            options={
                'ordering': ['-pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='EnvironmentStep',
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
                ('operation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='environments.environmentoperation')),
            ],
            options={
                'ordering': ['position'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='EnvironmentTransition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('old', models.CharField(max_length=32)),
                ('new', models.CharField(max_length=32)),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.CharField(blank=True, max_length=500)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('subject', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='transitions', to='environments.environment')),
            ],
            options={
                'ordering': ['pk'],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='KindVersion',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('document', models.JSONField()),
                ('note', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('kind', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='environments.environmentkind')),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
        migrations.AddField(
            model_name='environment',
            name='made_of',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='environments', to='environments.kindversion'),
        ),
        migrations.CreateModel(
            name='SshKey',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('secret', models.TextField(editable=False)),
                ('public', models.TextField()),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='ssh_key_one')],
            },
        ),
        migrations.CreateModel(
            name='TokenDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('requests', models.BigIntegerField()),
                ('tokens_in', models.BigIntegerField()),
                ('tokens_out', models.BigIntegerField()),
                ('environment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='token_days', to='environments.environment')),
            ],
            options={
                'ordering': ['-day'],
            },
        ),
        migrations.AddConstraint(
            model_name='environmentoperation',
            constraint=models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('environment',), name='environment_operation_one_open'),
        ),
        migrations.AddConstraint(
            model_name='environmentstep',
            constraint=models.UniqueConstraint(fields=('operation', 'key'), name='environment_step_once_per_operation'),
        ),
        migrations.AddConstraint(
            model_name='kindversion',
            constraint=models.UniqueConstraint(fields=('kind', 'number'), name='kind_version_once'),
        ),
        migrations.AddIndex(
            model_name='environment',
            index=models.Index(fields=['project', '-id'], name='environment_project_idx'),
        ),
        migrations.AddConstraint(
            model_name='environment',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'deleted'), _negated=True), fields=('workspace', 'name'), name='environment_name_once_per_workspace'),
        ),
        migrations.AddConstraint(
            model_name='environment',
            constraint=models.UniqueConstraint(fields=('label',), name='environment_label_once'),
        ),
        migrations.AddConstraint(
            model_name='environment',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['requested', 'provisioning', 'ready', 'suspending', 'suspended', 'resuming', 'failed', 'deleting', 'deleted'])), name='environment_state_known'),
        ),
        migrations.AddConstraint(
            model_name='tokenday',
            constraint=models.UniqueConstraint(fields=('environment', 'day'), name='token_day_once'),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
