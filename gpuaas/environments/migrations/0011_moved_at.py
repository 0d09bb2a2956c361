from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("environments", "0010_workers")]

    operations = [
        migrations.AddField("environmentcounter", "moved_at", models.DateTimeField(blank=True, null=True)),
    ]
