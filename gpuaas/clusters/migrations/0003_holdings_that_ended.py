from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("clusters", "0002_template_versions_stay")]
    operations = [
        AddIndexConcurrently("clusterholding", models.Index(fields=["ended_at"], name="cluster_holding_ended_idx")),
    ]
