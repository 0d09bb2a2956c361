"""An address opens one account. The release that runs on refuses a second one, too; in a race it says so in other words."""

from django.db import migrations, models
from django.db.models.functions import Lower


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tenants", "0005_addresses_apart")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                # what an interrupted one left
                migrations.RunSQL('DROP INDEX CONCURRENTLY IF EXISTS "user_address_once"', migrations.RunSQL.noop),
                migrations.RunSQL(
                    'CREATE UNIQUE INDEX CONCURRENTLY "user_address_once" ON "tenants_user" (lower("email"))'
                    " WHERE NOT (\"email\" = '')",
                    'DROP INDEX CONCURRENTLY IF EXISTS "user_address_once"',
                ),
            ],
            state_operations=[
                migrations.AddConstraint(
                    "user",
                    models.UniqueConstraint(
                        Lower("email"), name="user_address_once", condition=models.Q(("email", ""), _negated=True)
                    ),
                ),
            ],
        ),
    ]
