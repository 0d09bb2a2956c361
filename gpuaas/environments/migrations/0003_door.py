import django.db.models.deletion
import gpuaas.environments.models
from django.conf import settings
from django.db import migrations, models


def labels_give(apps, _editor):
    environments = apps.get_model('environments', 'Environment')
    for pk in environments.objects.filter(label=None).values_list('pk', flat=True):
        environments.objects.filter(pk=pk).update(label=gpuaas.environments.models.label_new())


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0002_versions_stay'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # a default is asked for once for all rows, and no two may have the same
        migrations.AddField(
            model_name='environment',
            name='label',
            field=models.CharField(blank=True, editable=False, max_length=32, null=True, unique=True),
        ),
        migrations.RunPython(labels_give, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='environment',
            name='label',
            field=models.CharField(blank=True, default=gpuaas.environments.models.label_new, editable=False, max_length=32, null=True, unique=True),
        ),
        migrations.AddField(
            model_name='environment',
            name='last_used_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.CreateModel(
            name='DoorPass',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session_key', models.CharField(max_length=40)),
                ('proof', models.CharField(max_length=128)),
                ('browser', models.CharField(max_length=64)),
                ('ticket', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ('cookie', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ('created_at', models.DateTimeField()),
                ('environment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passes', to='environments.environment')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
    ]
