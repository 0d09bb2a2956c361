"""The history of capacity can only grow: of a row nothing but the end of an open stretch is ever written."""

import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


FORWARD = """
CREATE FUNCTION quotas_capacity_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ends_at IS NULL AND NEW.ends_at IS NOT NULL
       AND (NEW.id, NEW.site_id, NEW.gpu_type_id, NEW.devices, NEW.known, NEW.starts_at)
         = (OLD.id, OLD.site_id, OLD.gpu_type_id, OLD.devices, OLD.known, OLD.starts_at) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the history of capacity is append-only (% refused)', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER quotas_capacity_no_change BEFORE UPDATE OR DELETE ON quotas_capacitystretch
    FOR EACH ROW EXECUTE FUNCTION quotas_capacity_append_only();
CREATE TRIGGER quotas_capacity_no_truncate BEFORE TRUNCATE ON quotas_capacitystretch
    FOR EACH STATEMENT WHEN (current_setting('gpuaas.allow_truncate', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION quotas_capacity_append_only();
"""
BACKWARD = """
DROP TRIGGER quotas_capacity_no_truncate ON quotas_capacitystretch;
DROP TRIGGER quotas_capacity_no_change ON quotas_capacitystretch;
DROP FUNCTION quotas_capacity_append_only();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0005_offers_round'),
        ('quotas', '0003_holds'),
    ]

    operations = [
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
                ('devices', models.PositiveIntegerField()),
                ('known', models.BooleanField(default=True)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(blank=True, null=True)),
                ('gpu_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.gputype')),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='capacity_stretches', to='catalog.site')),
            ],
            options={
                'ordering': ['site', 'gpu_type', 'starts_at', 'pk'],
                'indexes': [models.Index(fields=['site', 'starts_at'], name='capacity_stretch_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ends_at__isnull', True)), fields=('site', 'gpu_type'), name='capacity_one_open'), models.CheckConstraint(condition=models.Q(('ends_at__isnull', True), ('ends_at__gte', models.F('starts_at')), _connector='OR'), name='capacity_ends_after'), models.CheckConstraint(condition=models.Q(('known', True), ('ends_at__isnull', False), _connector='OR'), name='capacity_open_is_known')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
