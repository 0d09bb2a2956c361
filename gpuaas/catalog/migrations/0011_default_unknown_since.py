from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("catalog", "0010_notice")]

    operations = [
        migrations.AddField(
            "site",
            "default_unknown_since",
            models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
