import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0005_deadlines'),
    ]

    operations = [
        migrations.CreateModel(
            name='ImportProgress',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('file', models.CharField(max_length=255)),
                ('requested_by', models.CharField(max_length=150)),
                (
                    'step',
                    models.PositiveSmallIntegerField(
                        choices=[
                            (1, 'The rows of the file are read'),
                            (2, 'They are checked, and other imports waited for'),
                            (3, 'They are compared with the usage that is there'),
                            (4, 'New rows are written'),
                            (5, 'It is added up by month, project and meter'),
                        ],
                        default=1,
                    ),
                ),
                ('rows', models.PositiveBigIntegerField(default=0)),
                ('began_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
            ],
        ),
    ]
