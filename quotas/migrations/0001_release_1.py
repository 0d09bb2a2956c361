import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('quotas', '0001_initial'), ('quotas', '0002_initial'), ('quotas', '0003_holds'), ('quotas', '0005_reserved_pools'), ('quotas', '0006_reservations_at_several_sites')]

    initial = True

    dependencies = [
        ('catalog', '0001_release_1'),
        ('tenants', '0001_release_1'),
    ]

    operations = [
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('organization', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='tenants.organization')),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='tenants.project')),
                ('resource', models.CharField(max_length=80)),
                ('hard', models.PositiveBigIntegerField(blank=True, null=True)),
                ('used', models.PositiveBigIntegerField(default=0)),
                ('version', models.PositiveBigIntegerField(default=1)),
            ],
            options={
                'ordering': ['resource'],
                'constraints': [models.UniqueConstraint(fields=('organization', 'resource'), name='organization_limit_once'), models.UniqueConstraint(fields=('project', 'resource'), name='project_limit_once'), models.CheckConstraint(condition=models.Q(('organization__isnull', True), ('project__isnull', True), _connector='XOR'), name='limit_has_one_scope')],
            },
        ),
        migrations.CreateModel(
            name='SiteCapacity',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sellable', to='catalog.site')),
                ('resource', models.CharField(max_length=80)),
                ('healthy', models.PositiveBigIntegerField(default=0)),
                ('oversubscription_percent', models.PositiveIntegerField(default=100)),
                ('hard', models.PositiveBigIntegerField(blank=True, null=True)),
                ('used', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'ordering': ['site', 'resource'],
                'constraints': [models.UniqueConstraint(fields=('site', 'resource'), name='site_capacity_once')],
            },
        ),
        migrations.CreateModel(
            name='CapacityWatch',
            fields=[
                ('site', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='capacity_watch', serialize=False, to='catalog.site')),
                ('seen_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='CapacityStretch',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='capacity_stretches', to='catalog.site')),
                ('gpu_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.gputype')),
                ('devices', models.PositiveIntegerField()),
                ('known', models.BooleanField(default=True)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['site', 'gpu_type', 'starts_at', 'pk'],
                'indexes': [models.Index(fields=['site', 'starts_at'], name='capacity_stretch_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ends_at__isnull', True)), fields=('site', 'gpu_type'), name='capacity_one_open'), models.CheckConstraint(condition=models.Q(('ends_at__isnull', True), ('ends_at__gte', models.F('starts_at')), _connector='OR'), name='capacity_ends_after'), models.CheckConstraint(condition=models.Q(('known', True), ('ends_at__isnull', False), _connector='OR'), name='capacity_open_is_known')],
            },
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('holder_kind', models.CharField(max_length=16)),
                ('holder_id', models.UUIDField(db_index=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reservations', to='tenants.project')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reservations', to='catalog.site')),
                ('resource', models.CharField(max_length=80)),
                ('amount', models.PositiveBigIntegerField()),
                ('state', models.CharField(choices=[('held', 'Held'), ('released', 'Released')], default='held', max_length=16)),
                ('created_at', models.DateTimeField()),
                ('released_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['pk'],
                'indexes': [models.Index(condition=models.Q(('state', 'held')), fields=['project', 'resource'], name='reservation_held_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'held')), fields=('holder_id', 'site', 'resource'), name='holder_reserves_resource_once'), models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='reservation_is_positive'), models.CheckConstraint(condition=models.Q(models.Q(('released_at__isnull', True), ('state', 'held')), models.Q(('released_at__isnull', False), ('state', 'released')), _connector='OR'), name='reservation_released_has_time'), models.CheckConstraint(condition=models.Q(('released_at__isnull', True), ('released_at__gte', models.F('created_at')), _connector='OR'), name='reservation_released_after')],
            },
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('source', models.CharField(max_length=80, unique=True)),
                ('organization', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='tenants.organization')),
                ('project', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='tenants.project')),
                ('holder_id', models.UUIDField(blank=True, null=True)),
                ('reason', models.CharField(max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(('holder_id__isnull', True), ('project__isnull', False), _connector='OR'), name='hold_of_holder_has_project')],
            },
        ),
        migrations.CreateModel(
            name='PoolReservation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reservations', to='catalog.gpupool')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pool_reservations', to='tenants.project')),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor')),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('note', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-valid_from'],
                'constraints': [models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='pool_reserved_ends_after')],
            },
        ),
    ]
