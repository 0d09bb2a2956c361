from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0005_addresses_apart'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='version',
            field=models.PositiveBigIntegerField(default=1, db_default=1),
        ),
    ]
