from django.db import migrations, models

ARCH = {"blank": True, "db_default": "", "default": "", "max_length": 16}


class Migration(migrations.Migration):

    dependencies = [("catalog", "0005_shares")]

    operations = [
        migrations.AddField("gpupool", "arch", models.CharField(**ARCH)),
        migrations.AddField("node", "arch", models.CharField(**ARCH)),
    ]
