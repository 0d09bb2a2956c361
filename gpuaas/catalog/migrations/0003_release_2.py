import django.core.validators
import django.db.models.deletion
import gpuaas.core.ids
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('catalog', '0003_cards'),
        ('catalog', '0004_others'),
        ('catalog', '0005_shares'),
        ('catalog', '0006_arch'),
        ('catalog', '0007_readings'),
        ('catalog', '0008_storage_classes'),
        ('catalog', '0009_confirmed'),
        ('catalog', '0010_notice'),
        ('catalog', '0011_default_unknown_since'),
        ('catalog', '0012_runtimes'),
    ]

    dependencies = [
        ('catalog', '0002_slow_until'),
    ]

    operations = [
        migrations.CreateModel(
            name='SiteReadings',
            fields=[
                ('due_at', models.DateTimeField(blank=True, db_index=True, null=True)),
                ('claim_token', models.UUIDField(blank=True, editable=False, null=True)),
                ('claim_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('site', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='readings', serialize=False, to='catalog.site')),
                ('at', models.DateTimeField()),
                ('devices', models.JSONField(blank=True, default=list)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='StorageClass',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=253)),
                ('provisioner', models.CharField(blank=True, max_length=253)),
                ('is_default', models.BooleanField(default=False)),
                ('present', models.BooleanField(default=True)),
                ('plain', models.BooleanField(default=False)),
                ('chosen', models.BooleanField(default=False)),
                ('slug', models.CharField(blank=True, max_length=40, validators=[django.core.validators.RegexValidator('\\A[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\\Z', 'use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit')])),
                ('state', models.CharField(choices=[('draft', 'Draft'), ('active', 'Active'), ('retired', 'Retired')], default='draft', max_length=16)),
                ('observed_at', models.DateTimeField()),
            ],
            options={
                'ordering': ['site', 'name'],
            },
        ),
        migrations.AddField(
            model_name='flavor',
            name='notice_seconds',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='gpupool',
            name='arch',
            field=models.CharField(blank=True, db_default='', default='', max_length=16),
        ),
        migrations.AddField(
            model_name='gpupool',
            name='card_share',
            field=models.DecimalField(db_default=Decimal('1'), decimal_places=12, default=Decimal('1'), max_digits=13),
        ),
        migrations.AddField(
            model_name='gpupool',
            name='cards',
            field=models.DecimalField(blank=True, decimal_places=4, max_digits=14, null=True),
        ),
        migrations.AddField(
            model_name='gpupool',
            name='others',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='gpupool',
            name='shares',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='arch',
            field=models.CharField(blank=True, db_default='', default='', max_length=16),
        ),
        migrations.AddField(
            model_name='node',
            name='others',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='site',
            name='confirmed',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name='site',
            name='default_unknown_since',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='site',
            name='runtimes',
            field=models.JSONField(blank=True, db_default=[], default=list, editable=False),
        ),
        migrations.AddField(
            model_name='site',
            name='unknown',
            field=models.JSONField(blank=True, db_default=[], default=list, editable=False),
        ),
        migrations.AddConstraint(
            model_name='flavor',
            constraint=models.CheckConstraint(condition=models.Q(('notice_seconds', 0), ('price_class', 'spot'), _connector='OR'), name='flavor_lent_is_spot'),
        ),
        migrations.AddField(
            model_name='storageclass',
            name='site',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='storage_classes', to='catalog.site'),
        ),
        migrations.AddConstraint(
            model_name='storageclass',
            constraint=models.UniqueConstraint(fields=('site', 'name'), name='storage_class_once_per_site'),
        ),
        migrations.AddConstraint(
            model_name='storageclass',
            constraint=models.UniqueConstraint(condition=models.Q(('plain', True)), fields=('site',), name='storage_class_one_plain'),
        ),
        migrations.AddConstraint(
            model_name='storageclass',
            constraint=models.UniqueConstraint(condition=models.Q(('slug', ''), _negated=True), fields=('slug',), name='storage_class_sold_once'),
        ),
        migrations.AddConstraint(
            model_name='storageclass',
            constraint=models.CheckConstraint(condition=models.Q(('chosen', False), ('plain', True), _connector='OR'), name='storage_class_chosen_is_plain'),
        ),
        migrations.AddConstraint(
            model_name='storageclass',
            constraint=models.CheckConstraint(condition=models.Q(('state', 'draft'), models.Q(('slug', ''), _negated=True), _connector='OR'), name='storage_class_sold_has_a_slug'),
        ),
    ]
