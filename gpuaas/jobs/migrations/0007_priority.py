from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0006_preempted")]

    operations = [
        migrations.AddField(
            "job",
            "priority",
            models.CharField(
                choices=[("high", "High"), ("normal", "Normal"), ("low", "Low")],
                db_default="normal",
                default="normal",
                max_length=8,
            ),
        ),
    ]
