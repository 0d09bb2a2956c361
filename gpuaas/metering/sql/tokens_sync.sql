-- Tokens of endpoints as intervals, one for each environment, day and meter: of one second at the beginning of the day, of 3600
-- unit-seconds for each million. A day has what is whole up to and with it less what was whole before, so that the days of an
-- environment add up to what it has counted in all. A day that has become empty has no length. Idempotent, set-based; days of
-- final months are left as they are. Parameters: now, since (a day; null = all), zone.
WITH counted AS (
    SELECT t.environment_id, t.day, m.meter, m.tokens,
           sum(m.tokens) OVER (PARTITION BY t.environment_id, m.meter ORDER BY t.day) AS reached
    FROM environments_tokenday t
    CROSS JOIN LATERAL (VALUES ('tokens_in', t.tokens_in), ('tokens_out', t.tokens_out)) AS m (meter, tokens)
    WHERE %(since)s::date IS NULL
       OR t.environment_id IN (SELECT n.environment_id FROM environments_tokenday n WHERE n.day >= %(since)s::date)
),
whole AS (
    SELECT c.environment_id, c.meter, 'tokens:' || c.environment_id || ':' || c.day AS uid,
           c.day::timestamp AT TIME ZONE %(zone)s AS started_at,
           (div(c.reached * 3600, 1000000) - div((c.reached - c.tokens) * 3600, 1000000))::bigint AS units
    FROM counted c
    WHERE %(since)s::date IS NULL OR c.day >= %(since)s::date
),
told AS (
    SELECT e.site_id, e.project_id, e.workspace_id, e.name, d.uid, d.meter, greatest(d.units, 1) AS quantity,
           coalesce(i.started_at, d.started_at) AS started_at,
           coalesce(i.started_at, d.started_at) + CASE WHEN d.units > 0 THEN interval '1 second' ELSE interval '0' END AS ended_at,
           i.id AS known, i.quantity AS known_quantity, i.ended_at AS known_ended_at
    FROM whole d
    JOIN environments_environment e ON e.id = d.environment_id
    LEFT JOIN metering_usageinterval i
        ON i.site_id = e.site_id AND i.consumer_uid = d.uid AND i.meter = d.meter AND i.resource_name = d.meter
    WHERE i.id IS NOT NULL OR d.units > 0
)
INSERT INTO metering_usageinterval AS t (
    id, site_id, project_id, workspace_id, cluster_id, flavor_id, consumer_uid, consumer_name, node, meter, resource_name,
    quantity, started_at, ended_at, last_seen_at, ended_by
)
SELECT gen_random_uuid(), site_id, project_id, workspace_id, NULL, NULL, uid, name, '', meter, meter, quantity, started_at, ended_at,
       %(now)s, 'observed'
FROM told
WHERE (known IS NULL OR (known_quantity, known_ended_at) IS DISTINCT FROM (quantity, ended_at))
  AND started_at >= coalesce((SELECT max(f.ends_at) FROM metering_finalmonth f), '-infinity')
ORDER BY uid, meter
ON CONFLICT (site_id, consumer_uid, meter, resource_name) DO UPDATE SET
    quantity = excluded.quantity, ended_at = excluded.ended_at, last_seen_at = excluded.last_seen_at
