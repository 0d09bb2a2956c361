from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    atomic = False

    dependencies = [("jobs", "0008_mail")]

    operations = [
        AddIndexConcurrently(
            "job",
            models.Index(fields=["finished_at"], condition=Q(mail=True, mailed_at=None), name="job_mail_idx"),
        ),
    ]
