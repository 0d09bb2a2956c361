"""Versions, tiers, drafts, accounts, discounts. Each moment at which rates of a card began becomes a version of it."""

import django.core.validators
import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models

VERSIONS = """
INSERT INTO billing_ratecardversion (id, card_id, number, valid_from, note, published_by, published_at)
SELECT gen_random_uuid(), card_id, row_number() OVER (PARTITION BY card_id ORDER BY valid_from), valid_from, '',
       min(created_by), min(created_at)
FROM billing_rate GROUP BY card_id, valid_from;
UPDATE billing_rate r SET version_id = v.id
FROM billing_ratecardversion v WHERE v.card_id = r.card_id AND v.valid_from = r.valid_from;
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""

# The type is that of migration 0002
NO_OVERLAP = """
ALTER TABLE billing_discount ADD CONSTRAINT discount_no_overlap EXCLUDE USING gist (
    billing_rate_key(
        organization_id::text || '/' || coalesce(flavor_id::text, ''),
        organization_id::text || '/' || coalesce(flavor_id::text, ''),
        '[]'
    ) WITH =,
    tstzrange(valid_from, valid_to) WITH &&
);
ALTER TABLE billing_poolreservation ADD CONSTRAINT pool_reservation_no_overlap EXCLUDE USING gist (
    billing_rate_key(pool_id::text, pool_id::text, '[]') WITH =,
    tstzrange(valid_from, valid_to) WITH &&
);
"""
OVERLAP = """
ALTER TABLE billing_poolreservation DROP CONSTRAINT pool_reservation_no_overlap;
ALTER TABLE billing_discount DROP CONSTRAINT discount_no_overlap;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0002_rates_do_not_overlap'),
        ('catalog', '0004_gpu_names'),
        ('tenants', '0002_audit_append_only'),
    ]

    operations = [
        migrations.CreateModel(
            name='BillingAccount',
            fields=[
                ('organization', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='billing_account', serialize=False, to='tenants.organization')),
                ('currency', models.CharField(max_length=3)),
                ('currency_fixed_at', models.DateTimeField(blank=True, null=True)),
                ('tax_rate_bp', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(10000)])),
                ('tax_label', models.CharField(blank=True, max_length=60)),
                ('address', models.TextField(blank=True, max_length=1000)),
                ('invoice_reference', models.CharField(blank=True, max_length=100)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Discount',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('basis_points', models.PositiveIntegerField()),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('note', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['organization__slug', '-valid_from'],
            },
        ),
        migrations.CreateModel(
            name='PoolReservation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('price_micro', models.PositiveBigIntegerField()),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-valid_from'],
            },
        ),
        migrations.CreateModel(
            name='ProjectCostCenter',
            fields=[
                ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='cost_center', serialize=False, to='tenants.project')),
                ('code', models.CharField(max_length=60)),
            ],
        ),
        migrations.CreateModel(
            name='RateCardVersion',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('valid_from', models.DateTimeField()),
                ('note', models.CharField(blank=True, max_length=300)),
                ('published_by', models.CharField(max_length=150)),
                ('published_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-valid_from'],
            },
        ),
        migrations.CreateModel(
            name='RateDraft',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('valid_from', models.DateTimeField(blank=True, null=True)),
                ('note', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='RateDraftLine',
            fields=[
                ('price_class', models.CharField(choices=[('on_demand', 'On demand'), ('reserved', 'Reserved'), ('spot', 'Spot')], default='on_demand', max_length=16)),
                ('meter', models.CharField(max_length=32)),
                ('increment_seconds', models.PositiveIntegerField(default=1)),
                ('minimum_seconds', models.PositiveIntegerField(default=0)),
                ('tier_mode', models.CharField(blank=True, choices=[('', 'One price'), ('graduated', 'Graduated'), ('volume', 'Volume')], default='', max_length=16)),
                ('surplus_percent', models.PositiveIntegerField(default=100)),
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('price_micro', models.PositiveBigIntegerField()),
                ('tiers', models.JSONField(blank=True, default=list)),
            ],
            options={
                'ordering': ['flavor__slug', 'meter'],
            },
        ),
        migrations.CreateModel(
            name='RateTier',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('from_unit_hours', models.PositiveBigIntegerField()),
                ('price_micro', models.PositiveBigIntegerField()),
            ],
            options={
                'ordering': ['from_unit_hours'],
            },
        ),
        migrations.RemoveConstraint(
            model_name='ratecard',
            name='rate_card_one_default',
        ),
        migrations.RemoveField(
            model_name='ratecard',
            name='is_default',
        ),
        migrations.AddField(
            model_name='rate',
            name='increment_seconds',
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddField(
            model_name='rate',
            name='minimum_seconds',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='rate',
            name='surplus_percent',
            field=models.PositiveIntegerField(default=100),
        ),
        migrations.AddField(
            model_name='rate',
            name='tier_mode',
            field=models.CharField(blank=True, choices=[('', 'One price'), ('graduated', 'Graduated'), ('volume', 'Volume')], default='', max_length=16),
        ),
        migrations.AddField(
            model_name='ratecard',
            name='organization',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rate_cards', to='tenants.organization'),
        ),
        migrations.AlterField(
            model_name='rate',
            name='meter',
            field=models.CharField(max_length=32),
        ),
        migrations.AlterField(
            model_name='ratecard',
            name='name',
            field=models.CharField(max_length=150),
        ),
        migrations.AlterField(
            model_name='ratecard',
            name='slug',
            field=models.CharField(max_length=64, unique=True),
        ),
        migrations.AddConstraint(
            model_name='ratecard',
            constraint=models.UniqueConstraint(fields=('organization', 'currency'), name='rate_card_one_per_currency', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='billingaccount',
            constraint=models.CheckConstraint(condition=models.Q(('tax_rate_bp__lte', 10000)), name='billing_account_tax_rate'),
        ),
        migrations.AddField(
            model_name='discount',
            name='flavor',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor'),
        ),
        migrations.AddField(
            model_name='discount',
            name='organization',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='discounts', to='tenants.organization'),
        ),
        migrations.AddField(
            model_name='poolreservation',
            name='pool',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.gpupool'),
        ),
        migrations.AddField(
            model_name='poolreservation',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pool_reservations', to='tenants.project'),
        ),
        migrations.AddField(
            model_name='ratecardversion',
            name='card',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='billing.ratecard'),
        ),
        migrations.AddField(
            model_name='rate',
            name='version',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rates', to='billing.ratecardversion'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('increment_seconds__gte', 1)), name='rate_increment_is_positive'),
        ),
        migrations.AddField(
            model_name='ratedraft',
            name='card',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='billing.ratecard'),
        ),
        migrations.AddField(
            model_name='ratedraft',
            name='published',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='draft', to='billing.ratecardversion'),
        ),
        migrations.AddField(
            model_name='ratedraftline',
            name='draft',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='lines', to='billing.ratedraft'),
        ),
        migrations.AddField(
            model_name='ratedraftline',
            name='flavor',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor'),
        ),
        migrations.AddField(
            model_name='ratetier',
            name='rate',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tiers', to='billing.rate'),
        ),
        migrations.AddConstraint(
            model_name='discount',
            constraint=models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='discount_ends_after'),
        ),
        migrations.AddConstraint(
            model_name='discount',
            constraint=models.CheckConstraint(condition=models.Q(('basis_points__gte', 1), ('basis_points__lte', 10000)), name='discount_is_a_part'),
        ),
        migrations.AddConstraint(
            model_name='poolreservation',
            constraint=models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='pool_reservation_ends_after'),
        ),
        migrations.AddConstraint(
            model_name='ratecardversion',
            constraint=models.UniqueConstraint(fields=('card', 'number'), name='rate_version_number_once'),
        ),
        migrations.AddConstraint(
            model_name='ratecardversion',
            constraint=models.UniqueConstraint(fields=('card', 'valid_from'), name='rate_version_begins_once'),
        ),
        migrations.AddConstraint(
            model_name='ratedraft',
            constraint=models.UniqueConstraint(condition=models.Q(('published__isnull', True)), fields=('card',), name='rate_draft_one_open'),
        ),
        migrations.AddConstraint(
            model_name='ratedraftline',
            constraint=models.UniqueConstraint(fields=('draft', 'flavor', 'meter', 'price_class'), name='rate_draft_line_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='ratedraftline',
            constraint=models.CheckConstraint(condition=models.Q(('flavor__isnull', False), ('meter__in', ['vcpu_held', 'memory_held', 'storage_held']), _connector='XOR'), name='rate_draft_line_of_gpus_has_a_flavor'),
        ),
        migrations.AddConstraint(
            model_name='ratetier',
            constraint=models.UniqueConstraint(fields=('rate', 'from_unit_hours'), name='rate_tier_once'),
        ),
        migrations.AddConstraint(
            model_name='ratetier',
            constraint=models.CheckConstraint(condition=models.Q(('from_unit_hours__gt', 0)), name='rate_tier_begins_above_zero'),
        ),
        migrations.RunSQL(VERSIONS, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='rate',
            name='version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rates', to='billing.ratecardversion'),
        ),
        migrations.RunSQL(NO_OVERLAP, OVERLAP),
    ]
