import django.contrib.postgres.fields
import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('baremetal', '0001_initial'), ('baremetal', '0002_slots_and_sizes'), ('baremetal', '0003_drained')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Host',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site_id', models.UUIDField()),
                ('name', models.CharField(max_length=253)),
                ('resource_name', models.CharField(max_length=150)),
                ('gpus', models.PositiveSmallIntegerField()),
                ('product', models.CharField(blank=True, max_length=100)),
                ('gpu_memory_gib', models.PositiveIntegerField(default=0)),
                ('vcpus', models.PositiveIntegerField(default=0)),
                ('memory_gib', models.PositiveIntegerField(default=0)),
                ('bmc_address', models.CharField(max_length=300)),
                ('bmc_secret', models.CharField(max_length=63)),
                ('bmc_verify', models.BooleanField(default=True)),
                ('boot_mac', models.CharField(max_length=17)),
                ('interfaces', models.JSONField(default=list)),
                ('network', models.JSONField(blank=True, default=dict)),
                ('addresses', django.contrib.postgres.fields.ArrayField(base_field=models.GenericIPAddressField(), default=list, size=None)),
                ('root_device', models.JSONField(blank=True, default=dict)),
                ('state', models.CharField(choices=[('free', 'Free'), ('bound', 'Bound'), ('wiping', 'Wiping'), ('broken', 'Broken')], default='free', max_length=8)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('cluster_id', models.UUIDField(blank=True, null=True)),
                ('pool', models.CharField(blank=True, max_length=20)),
                ('slot', models.CharField(blank=True, max_length=30)),
                ('dirty', models.BooleanField(default=False)),
                ('drained_from', models.DateTimeField(blank=True, null=True)),
                ('drain_words', models.CharField(blank=True, max_length=300)),
                ('bound_at', models.DateTimeField(blank=True, null=True)),
                ('binding', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ['site_id', 'name'],
                'indexes': [models.Index(fields=['cluster_id'], name='baremetal_host_cluster_idx')],
                'constraints': [models.UniqueConstraint(fields=('site_id', 'name'), name='baremetal_host_name_once'), models.UniqueConstraint(fields=('site_id', 'boot_mac'), name='baremetal_host_mac_once'), models.UniqueConstraint(fields=('site_id', 'bmc_address'), name='baremetal_host_bmc_once'), models.UniqueConstraint(condition=models.Q(('cluster_id__isnull', False)), fields=('cluster_id', 'slot'), name='baremetal_host_slot_once'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'free'), _negated=True), ('dirty', False), _connector='OR'), name='baremetal_host_free_is_clean'), models.CheckConstraint(condition=models.Q(models.Q(('bound_at__isnull', False), ('cluster_id__isnull', False), ('state__in', ('bound', 'wiping'))), models.Q(models.Q(('state__in', ('bound', 'wiping')), _negated=True), ('cluster_id__isnull', True)), _connector='OR'), name='baremetal_host_held_by_one'), models.CheckConstraint(condition=models.Q(('state__in', ['free', 'bound', 'wiping', 'broken'])), name='baremetal_host_state_known')],
            },
        ),
        migrations.CreateModel(
            name='CertificateApproval',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='baremetal.host')),
                ('binding', models.PositiveIntegerField()),
                ('round', models.CharField(max_length=8)),
                ('request_uid', models.CharField(max_length=64)),
                ('request_name', models.CharField(max_length=253)),
                ('written_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('host', 'binding', 'round'), name='certificate_approval_once')],
            },
        ),
    ]
