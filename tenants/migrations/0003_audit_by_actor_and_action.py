"""The log is filtered by who did it and by what was done; both are offered to choose from."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tenants", "0002_audit_append_only")]

    operations = [
        AddIndexConcurrently(
            "auditentry", models.Index(fields=["actor", "-id"], name="audit_actor_idx")
        ),
        AddIndexConcurrently(
            "auditentry", models.Index(fields=["action", "-id"], name="audit_action_idx")
        ),
    ]
