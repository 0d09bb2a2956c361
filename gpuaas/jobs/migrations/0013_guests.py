import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("jobs", "0012_launcher"), ("workspaces", "0006_open_to_project")]

    operations = [
        migrations.AddField("job", "borrow", models.BooleanField(db_default=False, default=False)),
        migrations.AddField(
            "job",
            "place",
            models.ForeignKey(
                blank=True,
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="guests",
                to="workspaces.workspace",
            ),
        ),
        migrations.AddField(
            "job", "placed_at", models.DateTimeField(blank=True, editable=False, null=True)
        ),
        migrations.AddField(
            "job",
            "lenders",
            models.JSONField(blank=True, db_default=[], default=list, editable=False),
        ),
    ]
