from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("workspaces", "0005_notice")]

    operations = [
        migrations.AddField(
            "workspace", "open_to_project", models.BooleanField(db_default=False, default=False)
        ),
    ]
