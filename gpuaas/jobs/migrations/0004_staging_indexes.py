from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('jobs', '0003_staging'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(condition=models.Q(('state__in', ['staging_in', 'staging_out'])), fields=['workspace', 'created_at'], name='job_staging_idx'),
        ),
        AddIndexConcurrently(
            model_name='job',
            index=models.Index(condition=models.Q(('moving', True)), fields=['workspace'], name='job_moving_idx'),
        ),
    ]
