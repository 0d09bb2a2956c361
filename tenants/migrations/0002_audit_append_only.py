"""The audit log can only grow: the database itself refuses to change, delete or empty it."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION tenants_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only (% refused)', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER tenants_audit_no_change BEFORE UPDATE OR DELETE ON tenants_auditentry
    FOR EACH ROW EXECUTE FUNCTION tenants_audit_append_only();
CREATE TRIGGER tenants_audit_no_truncate BEFORE TRUNCATE ON tenants_auditentry
    FOR EACH STATEMENT WHEN (current_setting('gpuaas.allow_truncate', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION tenants_audit_append_only();
"""
BACKWARD = """
DROP TRIGGER tenants_audit_no_truncate ON tenants_auditentry;
DROP TRIGGER tenants_audit_no_change ON tenants_auditentry;
DROP FUNCTION tenants_audit_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_release_1")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
