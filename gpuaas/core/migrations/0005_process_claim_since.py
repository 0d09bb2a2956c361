from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("core", "0004_door")]

    operations = [
        migrations.AddField(
            model_name="process", name="claim_since", field=models.DateTimeField(null=True)
        ),
    ]
