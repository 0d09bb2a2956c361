"""What was kept of a time is void from the moment an interval of that time changes, in the same transaction.

Statements, not rows, as meters write in batches. What only says that something still runs (last_seen_at) changes nothing.
The lock is of one of 64 shares of all projects: whoever writes usage holds it together, who keeps a month holds it alone. So
a change that the keeper could not see yet finds what it kept, and a change that it could see is in it.
"""

from django.db import migrations

CREATE = """
CREATE FUNCTION billing_kept_share(project uuid) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashtextextended(project::text, 0) & 63)::integer
$$;
CREATE FUNCTION billing_kept_void(projects uuid[], froms timestamptz[], tos timestamptz[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF projects IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(8190, s.share)
    FROM (SELECT DISTINCT billing_kept_share(p.id) AS share FROM unnest(projects) AS p (id) ORDER BY 1) s;
    WITH void AS (
        SELECT m.id
        FROM billing_keptmonth m
        JOIN unnest(projects, froms, tos) AS c (project, starts_at, ends_at)
            ON c.project = m.project_id AND m.until > c.starts_at AND m.starts_at < c.ends_at
        WHERE m.until > m.starts_at
        ORDER BY m.id
        FOR UPDATE OF m
    )
    UPDATE billing_keptmonth m SET until = m.starts_at FROM void v WHERE v.id = m.id;
END
$$;
CREATE FUNCTION billing_usage_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM billing_kept_void(array_agg(c.project_id), array_agg(c.starts_at), array_agg(c.ends_at))
    FROM (
        SELECT project_id, min(started_at) AS starts_at, max(coalesce(ended_at, 'infinity')) AS ends_at FROM fresh GROUP BY 1
    ) c;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_usage_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM billing_kept_void(array_agg(c.project_id), array_agg(c.starts_at), array_agg(c.ends_at))
    FROM (
        SELECT project_id, min(started_at) AS starts_at, max(coalesce(ended_at, 'infinity')) AS ends_at FROM stale GROUP BY 1
    ) c;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_usage_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM billing_kept_void(array_agg(c.project_id), array_agg(c.starts_at), array_agg(c.ends_at))
    FROM (
        SELECT p.project_id, min(d.starts_at) AS starts_at, max(d.ends_at) AS ends_at
        FROM (
            SELECT o.project_id AS was, n.project_id AS is_now,
                   CASE WHEN w.whole THEN least(o.started_at, n.started_at)
                        ELSE least(coalesce(o.ended_at, 'infinity'), coalesce(n.ended_at, 'infinity')) END AS starts_at,
                   greatest(coalesce(o.ended_at, 'infinity'), coalesce(n.ended_at, 'infinity')) AS ends_at
            FROM stale o
            JOIN fresh n ON n.id = o.id
            CROSS JOIN LATERAL (
                SELECT (o.project_id, o.workspace_id, o.cluster_id, o.flavor_id, o.meter, o.resource_name, o.quantity, o.surplus,
                        o.started_at)
                    IS DISTINCT FROM
                       (n.project_id, n.workspace_id, n.cluster_id, n.flavor_id, n.meter, n.resource_name, n.quantity, n.surplus,
                        n.started_at) AS whole
            ) w
            WHERE w.whole OR o.ended_at IS DISTINCT FROM n.ended_at
        ) d
        CROSS JOIN LATERAL (VALUES (d.was), (d.is_now)) AS p (project_id)
        GROUP BY 1
    ) c;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_usage_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE billing_keptmonth SET until = starts_at;
    RETURN NULL;
END
$$;
CREATE TRIGGER billing_usage_added AFTER INSERT ON metering_usageinterval
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION billing_usage_added();
CREATE TRIGGER billing_usage_gone AFTER DELETE ON metering_usageinterval
    REFERENCING OLD TABLE AS stale FOR EACH STATEMENT EXECUTE FUNCTION billing_usage_gone();
CREATE TRIGGER billing_usage_changed AFTER UPDATE ON metering_usageinterval
    REFERENCING OLD TABLE AS stale NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION billing_usage_changed();
CREATE TRIGGER billing_usage_emptied AFTER TRUNCATE ON metering_usageinterval
    FOR EACH STATEMENT EXECUTE FUNCTION billing_usage_emptied();
"""
DROP = """
DROP TRIGGER billing_usage_added ON metering_usageinterval;
DROP TRIGGER billing_usage_gone ON metering_usageinterval;
DROP TRIGGER billing_usage_changed ON metering_usageinterval;
DROP TRIGGER billing_usage_emptied ON metering_usageinterval;
DROP FUNCTION billing_usage_added();
DROP FUNCTION billing_usage_gone();
DROP FUNCTION billing_usage_changed();
DROP FUNCTION billing_usage_emptied();
DROP FUNCTION billing_kept_void(uuid[], timestamptz[], timestamptz[]);
DROP FUNCTION billing_kept_share(uuid);
"""


class Migration(migrations.Migration):
    replaces = [("billing", "0013_usage_changes_void")]
    dependencies = [("billing", "0002_documents_are_closed"), ("metering", "0001_release_1")]

    operations = [migrations.RunSQL(CREATE, DROP)]
