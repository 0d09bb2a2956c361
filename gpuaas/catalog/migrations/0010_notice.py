from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    dependencies = [("catalog", "0009_confirmed")]

    operations = [
        migrations.AddField(
            "flavor", "notice_seconds", models.PositiveIntegerField(db_default=0, default=0)
        ),
        migrations.AddConstraint(
            "flavor",
            models.CheckConstraint(
                condition=Q(notice_seconds=0) | Q(price_class="spot"), name="flavor_lent_is_spot"
            ),
        ),
    ]
