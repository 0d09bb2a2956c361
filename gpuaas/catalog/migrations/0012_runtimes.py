from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("catalog", "0011_default_unknown_since")]

    operations = [
        migrations.AddField(
            "site",
            "runtimes",
            models.JSONField(blank=True, db_default=[], default=list, editable=False),
        ),
    ]
