from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('core', '0004_door'),
        ('core', '0005_process_claim_since'),
    ]

    dependencies = [
        ('core', '0003_process_skew'),
    ]

    operations = [
        migrations.AddField(
            model_name='process',
            name='claim_since',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='process',
            name='kind',
            field=models.CharField(choices=[('web', 'Web'), ('worker', 'Worker'), ('scheduler', 'Scheduler'), ('meter', 'Meter'), ('door', 'Door')], max_length=16),
        ),
    ]
