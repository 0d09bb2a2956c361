import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('workspaces', '0003_deleted_after'),
        ('workspaces', '0004_storage_classes'),
        ('workspaces', '0005_notice'),
        ('workspaces', '0006_open_to_project'),
    ]

    dependencies = [
        ('catalog', '0003_release_2'),
        ('workspaces', '0002_holdings_that_ended'),
    ]

    operations = [
        migrations.AddField(
            model_name='workspace',
            name='deleted_after',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='enforce_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='notice_seconds',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='workspace',
            name='open_to_project',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name='StorageHolding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('meter', models.CharField(max_length=32)),
                ('quantity', models.PositiveBigIntegerField()),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('flavor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.flavor')),
                ('storage_class', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.storageclass')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='storage_holdings', to='workspaces.workspace')),
            ],
            options={
                'ordering': ['pk'],
                'abstract': False,
                'indexes': [models.Index(fields=['ended_at'], name='storage_holding_ended_idx')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('workspace', 'storage_class'), name='storage_holding_open_once'), models.CheckConstraint(condition=models.Q(('ended_at__isnull', True), ('ended_at__gte', models.F('started_at')), _connector='OR'), name='storage_holding_ends_after')],
            },
        ),
        migrations.CreateModel(
            name='WorkspaceStorage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('gib', models.PositiveIntegerField()),
                ('confirmed', models.PositiveIntegerField(default=0)),
                ('storage_class', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='catalog.storageclass')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='storage', to='workspaces.workspace')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'storage_class'), name='workspace_storage_once')],
            },
        ),
    ]
