from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("workspaces", "0004_storage_classes")]

    operations = [
        migrations.AddField(
            "workspace",
            "notice_seconds",
            models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
