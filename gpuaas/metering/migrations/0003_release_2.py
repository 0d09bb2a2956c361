import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('metering', '0003_usage_imports'),
        ('metering', '0005_deadlines'),
        ('metering', '0006_import_progress'),
        ('metering', '0007_token_meters'),
    ]

    dependencies = [
        ('catalog', '0003_release_2'),
        ('clusters', '0004_release_2'),
        ('metering', '0002_final_months'),
        ('tenants', '0005_addresses_apart'),
        ('workspaces', '0003_release_2'),
    ]

    operations = [
        migrations.CreateModel(
            name='ImportProgress',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('file', models.CharField(max_length=255)),
                ('requested_by', models.CharField(max_length=150)),
                ('step', models.PositiveSmallIntegerField(choices=[(1, 'The rows of the file are read'), (2, 'They are checked, and other imports waited for'), (3, 'They are compared with the usage that is there'), (4, 'New rows are written'), (5, 'It is added up by month, project and meter')], default=1)),
                ('rows', models.PositiveBigIntegerField(default=0)),
                ('began_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='UsageImport',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, unique=True)),
                ('file', models.CharField(max_length=255)),
                ('imported_at', models.DateTimeField()),
                ('imported_by', models.CharField(max_length=150)),
                ('rows', models.PositiveBigIntegerField()),
                ('intervals', models.PositiveBigIntegerField()),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('closed_months', models.JSONField(default=list)),
                ('taken_back_at', models.DateTimeField(blank=True, null=True)),
                ('taken_back_by', models.CharField(blank=True, max_length=150)),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='UsageImportSum',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('meter', models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU of a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held'), ('tokens_in', 'Tokens in'), ('tokens_out', 'Tokens out')], max_length=32)),
                ('intervals', models.PositiveBigIntegerField()),
                ('unit_seconds', models.PositiveBigIntegerField()),
                ('besides_unit_seconds', models.PositiveBigIntegerField()),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.AddField(
            model_name='usageinterval',
            name='deadline_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='usageinterval',
            name='meter',
            field=models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU of a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held'), ('tokens_in', 'Tokens in'), ('tokens_out', 'Tokens out')], max_length=32),
        ),
        migrations.AddField(
            model_name='usageinterval',
            name='batch',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='metering.usageimport'),
        ),
        migrations.AddField(
            model_name='usageimportsum',
            name='batch',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sums', to='metering.usageimport'),
        ),
        migrations.AddField(
            model_name='usageimportsum',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.project'),
        ),
    ]
