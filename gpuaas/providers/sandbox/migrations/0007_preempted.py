from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("sandbox", "0006_movers")]

    operations = [
        migrations.AddField(
            "sandboxnamespace", "preempted", models.JSONField(blank=True, db_default={}, default=dict)
        ),
        migrations.AddField(
            "sandboxjob", "preempted", models.CharField(blank=True, db_default="", default="", max_length=120)
        ),
    ]
