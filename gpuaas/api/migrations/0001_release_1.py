import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('api', '0001_initial')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('caller', models.CharField(max_length=50)),
                ('key', models.CharField(max_length=128)),
                ('fingerprint', models.CharField(max_length=64)),
                ('secret', models.BooleanField(default=False)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('headers', models.JSONField(default=dict)),
                ('body', models.JSONField(null=True)),
                ('expires_at', models.DateTimeField(db_index=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('caller', 'key'), name='idempotency_key_once')],
            },
        ),
    ]
