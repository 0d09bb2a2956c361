import gpuaas.environments.models
from django.db import migrations, models

INDEX = 'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "environment_label_once" ON "environments_environment" ("label")'
CONSTRAINT = 'ALTER TABLE "environments_environment" ADD CONSTRAINT "environment_label_once" UNIQUE USING INDEX "environment_label_once"'
AWAY = 'ALTER TABLE "environments_environment" DROP CONSTRAINT "environment_label_once"'


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('environments', '0004_labels'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(INDEX, migrations.RunSQL.noop),
                migrations.RunSQL(CONSTRAINT, AWAY),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name='environment',
                    name='label',
                    field=models.CharField(default=gpuaas.environments.models.label_new, editable=False, max_length=32, null=True),
                ),
                migrations.AddConstraint(
                    model_name='environment',
                    constraint=models.UniqueConstraint(fields=('label',), name='environment_label_once'),
                ),
            ],
        ),
    ]
