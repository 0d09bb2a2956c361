from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    atomic = False

    dependencies = [("clusters", "0013_jobs_emptied")]

    operations = [
        AddIndexConcurrently(
            "clusterjob",
            models.Index(
                fields=["finished_at"],
                condition=Q(state__in=["cancelled", "failed", "succeeded"], emptied_at=None),
                name="cluster_job_kept_idx",
            ),
        ),
    ]
