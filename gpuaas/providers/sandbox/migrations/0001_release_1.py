import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('sandbox', '0001_initial'), ('sandbox', '0002_suspended'), ('sandbox', '0003_faults'), ('sandbox', '0004_unhealthy_devices'), ('sandbox', '0005_changes'), ('sandbox', '0006_machines'), ('sandbox', '0007_cluster_objects')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='SandboxSite',
            fields=[
                ('site_id', models.UUIDField(primary_key=True, serialize=False)),
                ('slug', models.CharField(blank=True, max_length=40)),
                ('token', models.CharField(blank=True, max_length=100)),
                ('latency_ms', models.PositiveIntegerField(default=0)),
                ('confirm_ms', models.PositiveIntegerField(default=150)),
                ('grace_ms', models.PositiveIntegerField(default=200)),
                ('namespace_ms', models.PositiveIntegerField(default=200)),
                ('machine_ms', models.PositiveIntegerField(default=2000)),
                ('down', models.BooleanField(default=False)),
                ('retry_after', models.PositiveIntegerField(default=5)),
                ('failures', models.JSONField(blank=True, default=dict)),
                ('faults', models.JSONField(blank=True, default=dict)),
                ('event_window', models.PositiveIntegerField(default=2000)),
                ('revision', models.PositiveBigIntegerField(default=0)),
                ('event_floor', models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='SandboxNode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='nodes', to='sandbox.sandboxsite')),
                ('name', models.CharField(max_length=63)),
                ('kind', models.JSONField(blank=True, default=dict)),
                ('resource_name', models.CharField(blank=True, max_length=150)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('capacity', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField(default=0)),
                ('memory_gib', models.PositiveIntegerField(default=0)),
                ('ready', models.BooleanField(default=True)),
                ('cordoned', models.BooleanField(default=False)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('unhealthy', models.PositiveIntegerField(default=0)),
                ('traits', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('site', 'name'), name='sandbox_node_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxNamespace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='namespaces', to='sandbox.sandboxsite')),
                ('name', models.CharField(max_length=63)),
                ('owner', models.UUIDField(null=True)),
                ('labels', models.JSONField(blank=True, default=dict)),
                ('selectors', models.JSONField(blank=True, default=dict)),
                ('limits', models.JSONField(blank=True, default=dict)),
                ('isolated', models.BooleanField(default=False)),
                ('suspended', models.BooleanField(default=False)),
                ('scaled_away', models.JSONField(blank=True, default=list)),
                ('confirm_at', models.DateTimeField(null=True)),
                ('gone_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('site', 'name'), name='sandbox_namespace_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxQuota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='sandbox.sandboxnamespace')),
                ('resource', models.CharField(max_length=150)),
                ('wanted', models.PositiveBigIntegerField()),
                ('hard', models.PositiveBigIntegerField(null=True)),
                ('used', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'ordering': ['resource'],
                'constraints': [models.UniqueConstraint(fields=('namespace', 'resource'), name='sandbox_quota_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='sandbox.sandboxnamespace')),
                ('subject', models.CharField(max_length=150)),
                ('name', models.CharField(max_length=150)),
                ('role', models.CharField(max_length=16)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('namespace', 'subject'), name='sandbox_member_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('member', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='sandbox.sandboxmember')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SandboxPod',
            fields=[
                ('uid', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pods', to='sandbox.sandboxsite')),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pods', to='sandbox.sandboxnamespace')),
                ('name', models.CharField(max_length=63)),
                ('owner', models.CharField(blank=True, max_length=100)),
                ('resource_name', models.CharField(blank=True, max_length=150)),
                ('gpus', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField(default=0)),
                ('memory_gib', models.PositiveIntegerField(default=0)),
                ('run_seconds', models.PositiveIntegerField(null=True)),
                ('node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='pods', to='sandbox.sandboxnode')),
                ('node_name', models.CharField(blank=True, max_length=63)),
                ('created_at', models.DateTimeField()),
                ('scheduled_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('gone_at', models.DateTimeField(null=True)),
                ('waiting_for', models.CharField(blank=True, max_length=300)),
            ],
            options={
                'ordering': ['created_at', 'pk'],
                'indexes': [models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['site'], name='sandbox_pod_live_idx')],
                'constraints': [models.UniqueConstraint(fields=('namespace', 'name'), name='sandbox_pod_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxMachine',
            fields=[
                ('uid', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='machines', to='sandbox.sandboxnamespace')),
                ('order', models.UUIDField(null=True)),
                ('name', models.CharField(max_length=255)),
                ('pod_name', models.CharField(max_length=63)),
                ('flavor', models.CharField(max_length=255)),
                ('image', models.CharField(max_length=64)),
                ('key', models.CharField(blank=True, max_length=255)),
                ('resource_name', models.CharField(max_length=150)),
                ('gpus', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField(default=1)),
                ('memory_gib', models.PositiveIntegerField(default=1)),
                ('address', models.GenericIPAddressField()),
                ('wanted', models.CharField(default='running', max_length=16)),
                ('last_action', models.UUIDField(null=True)),
                ('created_at', models.DateTimeField()),
                ('moves_until', models.DateTimeField()),
                ('launched_at', models.DateTimeField(null=True)),
                ('fault', models.CharField(blank=True, max_length=300)),
            ],
            options={
                'ordering': ['created_at', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('namespace', 'pod_name'), name='sandbox_machine_pod_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='sandbox.sandboxsite')),
                ('revision', models.PositiveBigIntegerField()),
                ('at', models.DateTimeField()),
                ('gone', models.BooleanField(default=False)),
                ('namespace', models.CharField(max_length=63)),
                ('consumer', models.JSONField()),
            ],
            options={
                'ordering': ['revision'],
                'constraints': [models.UniqueConstraint(fields=('site', 'revision'), name='sandbox_event_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='sandbox.sandboxsite')),
                ('namespace', models.CharField(max_length=63)),
                ('path', models.CharField(blank=True, max_length=200)),
                ('by', models.CharField(max_length=100)),
                ('at', models.DateTimeField()),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='SandboxClusterObject',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cluster_objects', to='sandbox.sandboxsite')),
                ('tag', models.UUIDField(db_index=True, null=True)),
                ('kind', models.CharField(max_length=32)),
                ('name', models.CharField(max_length=120)),
                ('uid', models.UUIDField(default=uuid.uuid4)),
                ('room', models.CharField(blank=True, max_length=63)),
                ('facts', models.JSONField(blank=True, default=dict)),
                ('ready_at', models.DateTimeField()),
                ('gone_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('site', 'kind', 'name'), name='sandbox_cluster_object_once')],
            },
        ),
        migrations.CreateModel(
            name='SandboxClusterToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='sandbox.sandboxclusterobject')),
                ('subject', models.CharField(max_length=150)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
    ]
