import django.core.validators
import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('catalog', '0001_initial'), ('catalog', '0002_workspace_that_holds'), ('catalog', '0003_rounds_and_fitness'), ('catalog', '0004_gpu_names'), ('catalog', '0005_offers_round'), ('catalog', '0006_sites_begin_and_end'), ('catalog', '0007_what_was_sold_stays')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Site',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.CharField(max_length=40, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\\Z', 'use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit')])),
                ('name', models.CharField(max_length=100)),
                ('driver', models.CharField(max_length=32)),
                ('endpoint', models.CharField(blank=True, max_length=300)),
                ('credentials', models.TextField(blank=True, editable=False)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('enabled', models.BooleanField(default=True)),
                ('oversubscription_percent', models.PositiveIntegerField(default=100)),
                ('server_version', models.CharField(blank=True, max_length=64)),
                ('conditions', models.JSONField(blank=True, default=dict)),
                ('probed_at', models.DateTimeField(blank=True, null=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('reached_at', models.DateTimeField(blank=True, null=True)),
                ('removed_at', models.DateTimeField(blank=True, null=True)),
                ('answer_ms', models.PositiveIntegerField(blank=True, null=True)),
                ('observed_digest', models.CharField(blank=True, editable=False, max_length=64)),
                ('gpu_names', models.JSONField(blank=True, default=list, editable=False)),
                ('drift_policy', models.CharField(choices=[('repair', 'Repair'), ('observe', 'Only observe')], default='repair', max_length=16)),
                ('preflight_at', models.DateTimeField(blank=True, null=True)),
                ('checks', models.JSONField(blank=True, default=dict)),
                ('fit', models.BooleanField(default=True)),
                ('sell_unfit', models.BooleanField(default=False)),
                ('version', models.PositiveBigIntegerField(default=1)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='SiteRound',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rounds', to='catalog.site')),
                ('kind', models.CharField(choices=[('preflight', 'Preflight'), ('health', 'Health of the GPUs'), ('offers', 'What is sold, made there')], max_length=16)),
                ('found', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('site', 'kind'), name='round_once_per_site')],
            },
        ),
        migrations.CreateModel(
            name='GpuType',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.CharField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=100)),
                ('product', models.CharField(max_length=100)),
                ('memory_gib', models.PositiveIntegerField()),
                ('compute_capability', models.CharField(blank=True, max_length=8)),
                ('ecc', models.BooleanField(blank=True, null=True)),
                ('mig_capable', models.BooleanField(blank=True, null=True)),
                ('sharing', models.CharField(choices=[('whole', 'Whole GPU'), ('mig', 'MIG slice'), ('shared', 'Time-sliced share'), ('dra', 'DRA device')], default='whole', max_length=16)),
                ('mig_profile', models.CharField(blank=True, max_length=32)),
                ('interconnect', models.CharField(blank=True, max_length=32)),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('active', 'Active'), ('retired', 'Retired')], default='draft', max_length=16)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['slug'],
            },
        ),
        migrations.CreateModel(
            name='GpuPool',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pools', to='catalog.site')),
                ('gpu_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pools', to='catalog.gputype')),
                ('resource_name', models.CharField(max_length=150)),
                ('selector', models.JSONField(blank=True, default=dict)),
                ('trouble', models.CharField(blank=True, max_length=500)),
                ('device_class', models.CharField(blank=True, max_length=253)),
                ('also', models.JSONField(blank=True, default=list)),
                ('shares_with', models.JSONField(blank=True, default=list)),
                ('capacity', models.PositiveIntegerField(default=0)),
                ('healthy', models.PositiveIntegerField(default=0)),
                ('allocated', models.PositiveIntegerField(default=0)),
                ('largest_block', models.PositiveIntegerField(default=0)),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['site', 'gpu_type'],
                'constraints': [models.UniqueConstraint(fields=('site', 'gpu_type'), name='pool_once_per_site')],
            },
        ),
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='nodes', to='catalog.site')),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='nodes', to='catalog.gpupool')),
                ('name', models.CharField(max_length=253)),
                ('ready', models.BooleanField(default=True)),
                ('cordoned', models.BooleanField(default=False)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('capacity', models.PositiveIntegerField(default=0)),
                ('allocated', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField(default=0)),
                ('memory_gib', models.PositiveIntegerField(default=0)),
                ('unhealthy', models.PositiveIntegerField(default=0)),
                ('zone', models.CharField(blank=True, max_length=63)),
                ('rack', models.CharField(blank=True, max_length=63)),
                ('nvlink_domain', models.CharField(blank=True, max_length=63)),
                ('numa', models.CharField(blank=True, max_length=32)),
                ('cpus', models.CharField(blank=True, max_length=32)),
                ('profile', models.CharField(blank=True, max_length=63)),
                ('hugepages', models.JSONField(blank=True, default=dict)),
                ('checks', models.JSONField(blank=True, default=dict)),
                ('observed_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['site', 'name', 'pk'],
                'constraints': [models.UniqueConstraint(fields=('site', 'name', 'pool'), name='node_once_per_pool', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='NodeCheck',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='node_checks', to='catalog.site')),
                ('node', models.CharField(max_length=253)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('passed', 'Passed'), ('failed', 'Failed')], default='waiting', max_length=16)),
                ('detail', models.CharField(blank=True, max_length=500)),
                ('output', models.TextField(blank=True)),
                ('requested_by', models.CharField(max_length=150)),
                ('requested_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-pk'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('site', 'node'), name='node_check_one_open')],
            },
        ),
        migrations.CreateModel(
            name='Flavor',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.CharField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=100)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='flavors', to='catalog.gpupool')),
                ('gpus', models.PositiveIntegerField(default=1)),
                ('vcpus', models.PositiveIntegerField()),
                ('memory_gib', models.PositiveIntegerField()),
                ('disk_gib', models.PositiveIntegerField(default=0)),
                ('price_class', models.CharField(choices=[('on_demand', 'On demand'), ('reserved', 'Reserved'), ('spot', 'Spot')], default='on_demand', max_length=16)),
                ('whole_node', models.BooleanField(default=False)),
                ('hugepages_size', models.CharField(blank=True, choices=[('2Mi', '2 MiB'), ('1Gi', '1 GiB')], max_length=8)),
                ('hugepages_gib', models.PositiveIntegerField(default=0)),
                ('exclusive_cpus', models.BooleanField(default=False)),
                ('sysctls', models.JSONField(blank=True, default=list)),
                ('profile', models.CharField(blank=True, max_length=63)),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('active', 'Active'), ('retired', 'Retired')], default='draft', max_length=16)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['slug'],
                'constraints': [models.CheckConstraint(condition=models.Q(('gpus__gte', 1)), name='flavor_has_a_gpu'), models.CheckConstraint(condition=models.Q(models.Q(('hugepages_gib', 0), ('hugepages_size', '')), models.Q(('hugepages_gib__gt', 0), models.Q(('hugepages_size', ''), _negated=True)), _connector='OR'), name='flavor_hugepages_have_a_size')],
            },
        ),
    ]
