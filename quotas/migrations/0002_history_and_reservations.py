"""The history of capacity can only grow: of a row nothing but the end of an open stretch is ever written. Reservations of one
pool never overlap; the range over text, of one point, is explained in billing's `no_overlap`.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION quotas_capacity_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ends_at IS NULL AND NEW.ends_at IS NOT NULL
       AND (NEW.id, NEW.site_id, NEW.gpu_type_id, NEW.devices, NEW.known, NEW.starts_at)
         = (OLD.id, OLD.site_id, OLD.gpu_type_id, OLD.devices, OLD.known, OLD.starts_at) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the history of capacity is append-only (% refused)', TG_OP USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER quotas_capacity_no_change BEFORE UPDATE OR DELETE ON quotas_capacitystretch
    FOR EACH ROW EXECUTE FUNCTION quotas_capacity_append_only();
CREATE TRIGGER quotas_capacity_no_truncate BEFORE TRUNCATE ON quotas_capacitystretch
    FOR EACH STATEMENT WHEN (current_setting('gpuaas.allow_truncate', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION quotas_capacity_append_only();
CREATE TYPE quotas_pool_key AS RANGE (subtype = text, collation = "C");
ALTER TABLE quotas_poolreservation ADD CONSTRAINT pool_reserved_no_overlap EXCLUDE USING gist (
    quotas_pool_key(pool_id::text, pool_id::text, '[]') WITH =,
    tstzrange(valid_from, valid_to) WITH &&
);
"""
BACKWARD = """
ALTER TABLE quotas_poolreservation DROP CONSTRAINT pool_reserved_no_overlap;
DROP TYPE quotas_pool_key;
DROP TRIGGER quotas_capacity_no_truncate ON quotas_capacitystretch;
DROP TRIGGER quotas_capacity_no_change ON quotas_capacitystretch;
DROP FUNCTION quotas_capacity_append_only();
"""


class Migration(migrations.Migration):
    replaces = [("quotas", "0004_capacity_history")]
    dependencies = [("quotas", "0001_release_1")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
