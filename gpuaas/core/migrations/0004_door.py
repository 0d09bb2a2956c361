from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('core', '0003_process_skew'),
    ]

    operations = [
        migrations.AlterField(
            model_name='process',
            name='kind',
            field=models.CharField(choices=[('web', 'Web'), ('worker', 'Worker'), ('scheduler', 'Scheduler'), ('meter', 'Meter'), ('door', 'Door')], max_length=16),
        ),
    ]
