"""A pool that is reserved is kept from others, so quotas has the fact; billing only counts what of it is idle."""

from django.db import migrations

COLUMNS = "id, pool_id, project_id, flavor_id, valid_from, valid_to, note, created_by, created_at"
FORWARD = f"INSERT INTO quotas_poolreservation ({COLUMNS}) SELECT {COLUMNS} FROM billing_poolreservation"
BACKWARD = f"INSERT INTO billing_poolreservation ({COLUMNS}) SELECT {COLUMNS} FROM quotas_poolreservation"


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0007_reserved_pools'),
        ('quotas', '0005_reserved_pools'),
    ]

    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.DeleteModel(name='PoolReservation'),
    ]
