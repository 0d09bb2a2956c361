from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("clusters", "0012_open_jobs_index")]

    operations = [
        migrations.AddField(
            "clusterjob", "emptied_at", models.DateTimeField(blank=True, editable=False, null=True)
        ),
    ]
