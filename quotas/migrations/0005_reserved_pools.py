"""Pools kept for one organization. They never overlap, held by the database without an extension: a range over text, of one
point, has the equality operator that GiST can index.
"""

import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models

FORWARD = """
CREATE TYPE quotas_pool_key AS RANGE (subtype = text, collation = "C");
ALTER TABLE quotas_poolreservation ADD CONSTRAINT pool_reserved_no_overlap EXCLUDE USING gist (
    quotas_pool_key(pool_id::text, pool_id::text, '[]') WITH =,
    tstzrange(valid_from, valid_to) WITH &&
);
"""
BACKWARD = """
ALTER TABLE quotas_poolreservation DROP CONSTRAINT pool_reserved_no_overlap;
DROP TYPE quotas_pool_key;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0005_offers_round'),
        ('quotas', '0004_capacity_history'),
        ('tenants', '0002_audit_append_only'),
    ]

    operations = [
        migrations.CreateModel(
            name='PoolReservation',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(blank=True, null=True)),
                ('note', models.CharField(blank=True, max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('flavor', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='reservations', to='catalog.gpupool')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pool_reservations', to='tenants.project')),
            ],
            options={
                'ordering': ['-valid_from'],
                'constraints': [models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='pool_reserved_ends_after')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
