from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("workspaces", "0001_release_1")]
    operations = [
        AddIndexConcurrently("holding", models.Index(fields=["ended_at"], name="holding_ended_idx")),
    ]
