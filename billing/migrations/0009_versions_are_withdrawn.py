from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('billing', '0008_reservations_are_quotas'),
    ]

    operations = [
        migrations.AddField(
            model_name='ratecard',
            name='numbers_gone',
            field=models.PositiveIntegerField(default=0),
        ),
    ]
