from django.db import migrations, models

COUNT = {"db_default": 0, "default": 0}


class Migration(migrations.Migration):

    dependencies = [("catalog", "0003_cards")]

    operations = [
        migrations.AddField("gpupool", "others", models.PositiveIntegerField(**COUNT)),
        migrations.AddField("node", "others", models.PositiveIntegerField(**COUNT)),
        migrations.AddField(
            "site", "unknown", models.JSONField(blank=True, db_default=[], default=list, editable=False)
        ),
    ]
