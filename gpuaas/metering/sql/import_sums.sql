-- What a batch brought of each month, project and meter, and what else is there. What is open counts to now.
-- Parameters: batch, now, months, starts, ends.
WITH place AS MATERIALIZED (SELECT DISTINCT project_id, meter FROM metering_usageinterval WHERE batch_id = %(batch)s),
used AS (
    SELECT m.month, i.project_id, i.meter, i.batch_id IS NOT DISTINCT FROM %(batch)s AS own,
           i.quantity * extract(EPOCH FROM least(coalesce(i.ended_at, %(now)s), m.ends_at) - greatest(i.started_at, m.starts_at))
               AS unit_seconds
    FROM unnest(%(months)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS m (month, starts_at, ends_at)
    JOIN metering_usageinterval i ON i.started_at < m.ends_at AND coalesce(i.ended_at, %(now)s) > m.starts_at
        AND coalesce(i.ended_at, %(now)s) > i.started_at
    JOIN place USING (project_id, meter)
)
INSERT INTO metering_usageimportsum (batch_id, month, project_id, meter, intervals, unit_seconds, besides_unit_seconds)
SELECT %(batch)s, u.month, u.project_id, u.meter, count(*) FILTER (WHERE own), coalesce(sum(u.unit_seconds) FILTER (WHERE own), 0),
       coalesce(sum(u.unit_seconds) FILTER (WHERE NOT own), 0)
FROM used u
JOIN tenants_project p ON p.id = u.project_id
GROUP BY u.month, u.project_id, p.slug, u.meter
HAVING bool_or(own)
ORDER BY u.month, p.slug COLLATE "C", u.meter COLLATE "C"
