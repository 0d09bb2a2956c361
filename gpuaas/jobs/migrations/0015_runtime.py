from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0014_place_index")]

    operations = [
        migrations.AddField(
            "job",
            "runtime",
            models.CharField(blank=True, db_default="", default="", max_length=253),
        ),
    ]
