"""The shared cache's table, as `createcachetable` makes it, so that `migrate` is all that a deployment needs."""

from django.core.management import call_command
from django.db import migrations

TABLE = "core_cache"


def create(apps, schema_editor):
    call_command("createcachetable", TABLE, database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
