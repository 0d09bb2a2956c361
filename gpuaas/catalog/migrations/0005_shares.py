from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("catalog", "0004_others")]

    operations = [
        migrations.AddField("gpupool", "shares", models.PositiveIntegerField(blank=True, null=True)),
    ]
