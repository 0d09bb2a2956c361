from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0007_priority")]

    operations = [
        migrations.AddField("job", "mail", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("job", "mailed_at", models.DateTimeField(blank=True, editable=False, null=True)),
    ]
