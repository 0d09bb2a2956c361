from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("catalog", "0008_storage_classes")]

    operations = [
        migrations.AddField("site", "confirmed", models.BooleanField(db_default=True, default=True)),
    ]
