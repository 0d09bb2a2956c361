from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0005_stopped_and_shelved'),
    ]

    operations = [
        migrations.AlterField(
            model_name='usageinterval',
            name='meter',
            field=models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU kept by a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held')], max_length=32),
        ),
    ]
