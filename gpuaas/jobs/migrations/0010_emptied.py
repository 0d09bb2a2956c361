from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0009_mail_index")]

    operations = [
        migrations.AddField("job", "emptied_at", models.DateTimeField(blank=True, editable=False, null=True)),
    ]
