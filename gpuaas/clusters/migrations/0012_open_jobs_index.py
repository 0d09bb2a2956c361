from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('clusters', '0011_job_files'),
    ]

    operations = [
        RemoveIndexConcurrently(
            model_name='clusterjob',
            name='cluster_job_open_idx',
        ),
        AddIndexConcurrently(
            model_name='clusterjob',
            index=models.Index(condition=models.Q(('state__in', ['pending', 'queued', 'running', 'staging_in', 'staging_out'])), fields=['cluster'], name='cluster_job_open_idx'),
        ),
    ]
