from decimal import Decimal

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("catalog", "0002_slow_until")]

    operations = [
        migrations.AddField(
            model_name="gpupool",
            name="cards",
            field=models.DecimalField(blank=True, decimal_places=4, max_digits=14, null=True),
        ),
        migrations.AddField(
            model_name="gpupool",
            name="card_share",
            field=models.DecimalField(
                db_default=Decimal("1"), decimal_places=12, default=Decimal("1"), max_digits=13
            ),
        ),
    ]
