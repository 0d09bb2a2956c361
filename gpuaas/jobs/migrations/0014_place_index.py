from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    atomic = False

    dependencies = [("jobs", "0013_guests")]

    operations = [
        AddIndexConcurrently(
            "job",
            models.Index(fields=["place"], condition=Q(place__isnull=False), name="job_place_idx"),
        ),
    ]
