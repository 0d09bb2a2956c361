from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0005_templates")]

    operations = [
        migrations.AddField(
            "job",
            "preempted",
            models.CharField(blank=True, db_default="", default="", editable=False, max_length=253),
        ),
        migrations.AddField(
            "job", "preempted_at", models.DateTimeField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            "job", "preemptions", models.PositiveIntegerField(db_default=0, default=0, editable=False)
        ),
    ]
