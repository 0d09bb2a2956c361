import django.db.models.deletion
import gpuaas.core.ids
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('billing', '0006_credits'),
        ('billing', '0008_usage_write_off'),
        ('billing', '0009_budget_of_cluster'),
        ('billing', '0010_storage_classes'),
        ('billing', '0011_account_version'),
        ('billing', '0012_token_prices'),
    ]

    dependencies = [
        ('billing', '0005_moved_usage'),
        ('catalog', '0003_release_2'),
        ('clusters', '0004_release_2'),
        ('tenants', '0005_addresses_apart'),
        ('workspaces', '0003_release_2'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageWriteOff',
            fields=[
                ('id', models.UUIDField(default=gpuaas.core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('resource_name', models.CharField(blank=True, max_length=150)),
                ('meter', models.CharField(max_length=32)),
                ('reason', models.CharField(max_length=300)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['-created_at', 'pk'],
            },
        ),
        migrations.RemoveConstraint(
            model_name='invoice',
            name='invoice_note_corrects',
        ),
        migrations.RemoveConstraint(
            model_name='ledgerposting',
            name='ledger_account_known',
        ),
        migrations.RemoveConstraint(
            model_name='rate',
            name='rate_is_of_one_thing',
        ),
        migrations.RemoveConstraint(
            model_name='ratedraftline',
            name='rate_draft_line_is_of_one_thing',
        ),
        migrations.AddField(
            model_name='billingaccount',
            name='version',
            field=models.PositiveBigIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='budget',
            name='cluster',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='budgets', to='clusters.cluster'),
        ),
        migrations.AddField(
            model_name='ledgerentry',
            name='credit',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='credit_entries', to='billing.invoice'),
        ),
        migrations.AlterField(
            model_name='keptday',
            name='meter',
            field=models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU of a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held'), ('tokens_in', 'Tokens in'), ('tokens_out', 'Tokens out')], max_length=32),
        ),
        migrations.AlterField(
            model_name='keptholder',
            name='meter',
            field=models.CharField(choices=[('gpu_held', 'GPU held'), ('gpu_allocated', 'GPU allocated'), ('gpu_stopped', 'GPU of a stopped machine'), ('gpu_shelved', 'GPU of a shelved machine'), ('gpu_idle', 'GPU idle in a reserved pool'), ('vcpu_held', 'vCPU held'), ('memory_held', 'Memory held'), ('storage_held', 'Storage held'), ('tokens_in', 'Tokens in'), ('tokens_out', 'Tokens out')], max_length=32),
        ),
        migrations.AlterField(
            model_name='ledgerentry',
            name='kind',
            field=models.CharField(choices=[('document', 'Document'), ('grant', 'Grant'), ('grant_use', 'Grant used'), ('grant_expiry', 'Grant expired'), ('prepaid', 'Payment received'), ('prepaid_use', 'Payment used'), ('credit', 'Credit given'), ('credit_use', 'Credit used'), ('payout', 'Payout'), ('reversal', 'Payment reversed'), ('write_off', 'Write-off')], max_length=16),
        ),
        migrations.AlterField(
            model_name='ledgerposting',
            name='account',
            field=models.CharField(choices=[('receivable', 'Receivable'), ('revenue', 'Revenue'), ('tax', 'Tax'), ('prepaid', 'Prepaid'), ('credit', 'Credit'), ('cash', 'Received'), ('grants', 'Grants'), ('grants_given', 'Grants given'), ('write_off', 'Written off')], max_length=16),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('cluster__isnull', True), models.Q(('project__isnull', False), ('workspace__isnull', True)), _connector='OR'), name='budget_of_cluster_has_project'),
        ),
        migrations.AddConstraint(
            model_name='invoice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('corrects__isnull', True), ('kind', 'invoice')), models.Q(models.Q(('kind', 'invoice'), _negated=True), ('corrects__isnull', False)), models.Q(('kind', 'credit_note'), ('total_minor__lt', 0)), _connector='OR'), name='invoice_note_corrects'),
        ),
        migrations.AddConstraint(
            model_name='ledgerposting',
            constraint=models.CheckConstraint(condition=models.Q(('account__in', ['receivable', 'revenue', 'tax', 'prepaid', 'credit', 'cash', 'grants', 'grants_given', 'write_off'])), name='ledger_account_known'),
        ),
        migrations.AddConstraint(
            model_name='ratedraftline',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('flavor__isnull', False), ('resource_name', ''), models.Q(('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), _negated=True)), models.Q(('flavor__isnull', True), models.Q(('resource_name', ''), _negated=True), models.Q(('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), _negated=True)), models.Q(('flavor__isnull', True), ('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), ('resource_name', '')), models.Q(('flavor__isnull', True), ('meter', 'storage_held'), ('resource_name__startswith', 'storage:')), _connector='OR'), name='rate_draft_line_is_of_one_thing'),
        ),
        migrations.AddField(
            model_name='usagewriteoff',
            name='card',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='write_offs', to='billing.ratecard'),
        ),
        migrations.AddField(
            model_name='usagewriteoff',
            name='flavor',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='write_offs', to='catalog.flavor'),
        ),
        migrations.AddField(
            model_name='rate',
            name='write_off',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='billing.usagewriteoff'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('flavor__isnull', False), ('resource_name', ''), models.Q(('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), _negated=True)), models.Q(('flavor__isnull', True), models.Q(('resource_name', ''), _negated=True), models.Q(('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), _negated=True)), models.Q(('flavor__isnull', True), ('meter__in', ['vcpu_held', 'memory_held', 'storage_held', 'tokens_in', 'tokens_out']), ('resource_name', '')), models.Q(('flavor__isnull', True), ('meter', 'storage_held'), ('resource_name__startswith', 'storage:')), _connector='OR'), name='rate_is_of_one_thing'),
        ),
    ]
