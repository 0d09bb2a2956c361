from django.db import migrations

from gpuaas.environments.models import label_new


def labels_give(apps, _editor):
    """Each its own: a default of the column would be one for all."""
    environments = apps.get_model('environments', 'Environment')
    for pk in environments.objects.filter(label=None).values_list('pk', flat=True):
        environments.objects.filter(pk=pk).update(label=label_new())


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0003_door'),
    ]

    operations = [
        migrations.RunPython(labels_give, migrations.RunPython.noop),
    ]
