from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0004_deleted_after'),
    ]

    operations = [
        migrations.AddField(
            model_name='clusterqueue',
            name='workers',
            field=models.JSONField(db_default={}, default=dict),
        ),
    ]
