from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0011_kept_index")]

    operations = [
        migrations.AddField(
            "job",
            "launcher",
            models.CharField(blank=True, choices=[("mpi", "MPI")], db_default="", default="", max_length=8),
        ),
    ]
