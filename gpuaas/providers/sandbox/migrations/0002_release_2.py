import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('sandbox', '0002_claims'),
        ('sandbox', '0003_environments'),
        ('sandbox', '0004_jobs'),
        ('sandbox', '0005_several_tasks'),
        ('sandbox', '0006_movers'),
        ('sandbox', '0007_preempted'),
        ('sandbox', '0008_slurm_jobs'),
        ('sandbox', '0009_homes'),
    ]

    dependencies = [
        ('sandbox', '0001_release_1'),
    ]

    operations = [
        migrations.AddField(
            model_name='sandboxnamespace',
            name='preempted',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='sandboxsite',
            name='environment_ms',
            field=models.PositiveIntegerField(db_default=500, default=500),
        ),
        migrations.CreateModel(
            name='SandboxClaim',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('storage_class', models.CharField(max_length=253)),
                ('gib', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField()),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='claims', to='sandbox.sandboxnamespace')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SandboxFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=1024)),
                ('is_folder', models.BooleanField(default=False)),
                ('content', models.BinaryField(default=bytes)),
                ('changed_at', models.DateTimeField()),
                ('claim', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='sandbox.sandboxclaim')),
            ],
            options={
                'ordering': ['path'],
            },
        ),
        migrations.CreateModel(
            name='SandboxJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63)),
                ('attempt', models.PositiveIntegerField(default=1)),
                ('made', models.BooleanField(default=False)),
                ('outcome', models.CharField(blank=True, max_length=16)),
                ('reason', models.CharField(blank=True, max_length=40)),
                ('detail', models.CharField(blank=True, max_length=300)),
                ('exit_code', models.IntegerField(null=True)),
                ('tasks', models.JSONField(blank=True, db_default=[], default=list)),
                ('moves', models.JSONField(blank=True, db_default=[], default=list)),
                ('preempted', models.CharField(blank=True, db_default='', default='', max_length=120)),
                ('created_at', models.DateTimeField()),
                ('namespace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to='sandbox.sandboxnamespace')),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='SandboxSlurmJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('tag', models.UUIDField(db_index=True)),
                ('job', models.UUIDField(unique=True)),
                ('pool', models.CharField(max_length=20)),
                ('gpus', models.PositiveIntegerField()),
                ('minutes', models.PositiveIntegerField(null=True)),
                ('script', models.TextField()),
                ('submitted_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, max_length=20)),
                ('exit_code', models.IntegerField(null=True)),
                ('site', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slurm_jobs', to='sandbox.sandboxsite')),
            ],
        ),
        migrations.AddConstraint(
            model_name='sandboxclaim',
            constraint=models.UniqueConstraint(fields=('namespace', 'name'), name='sandbox_claim_once'),
        ),
        migrations.AddConstraint(
            model_name='sandboxfile',
            constraint=models.UniqueConstraint(fields=('claim', 'path'), name='sandbox_file_once'),
        ),
        migrations.AddConstraint(
            model_name='sandboxjob',
            constraint=models.UniqueConstraint(fields=('namespace', 'name'), name='sandbox_job_once'),
        ),
    ]
