from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Coalesce


class Migration(migrations.Migration):

    atomic = False

    dependencies = [("jobs", "0010_emptied")]

    operations = [
        AddIndexConcurrently(
            "job",
            models.Index(
                Coalesce("finished_at", "deleted_at"),
                condition=Q(state__in=["deleted", "failed", "succeeded", "suspended"], emptied_at=None),
                name="job_kept_idx",
            ),
        ),
    ]
