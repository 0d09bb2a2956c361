from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metering", "0003_release_2")]

    operations = [
        AddIndexConcurrently(
            "usageinterval",
            models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch"], name="interval_batch_idx"
            ),
        ),
    ]
