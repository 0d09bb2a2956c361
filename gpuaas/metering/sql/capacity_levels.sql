-- What pools (a GPU type at a site) had and what of it was taken, in stretches in which none of it changes: a sweep over every
-- moment of change. Only time in which the site was looked at has a capacity; of the rest `unknown` is what was there before.
-- The CTE asked (site, gpu_type) comes before it. Parameters: first, last, now, fresh (a site that was seen since then is
-- taken to be the same until now), cuts (moments at which stretches are cut as well).
had AS (
    SELECT s.site_id AS site, s.gpu_type_id AS gpu_type, s.devices, s.known, s.starts_at,
           CASE WHEN s.ends_at IS NOT NULL THEN s.ends_at
                WHEN w.seen_at >= %(fresh)s THEN greatest(%(now)s, s.starts_at)
                ELSE greatest(w.seen_at, s.starts_at) END AS ends_at
    FROM asked a
    JOIN quotas_capacitystretch s ON s.site_id = a.site AND s.gpu_type_id = a.gpu_type
    JOIN quotas_capacitywatch w ON w.site_id = s.site_id
    UNION ALL
    SELECT s.site_id, s.gpu_type_id, s.devices, false, greatest(w.seen_at, s.starts_at), %(now)s
    FROM asked a
    JOIN quotas_capacitystretch s ON s.site_id = a.site AND s.gpu_type_id = a.gpu_type
    JOIN quotas_capacitywatch w ON w.site_id = s.site_id
    WHERE s.ends_at IS NULL AND w.seen_at < %(fresh)s
),
-- of which pool; materialized, or each of them is compared with every pool
placed AS MATERIALIZED (
    SELECT coalesce(f.pool_id, (
               SELECT p.id FROM catalog_gpupool p
               WHERE p.site_id = i.site_id AND p.resource_name = i.resource_name
               ORDER BY EXISTS (SELECT 1 FROM catalog_node n WHERE n.pool_id = p.id AND n.name = i.node) DESC, p.id
               LIMIT 1
           )) AS pool,
           i.meter, i.quantity, i.started_at AS starts_at, coalesce(i.ended_at, %(now)s) AS ends_at
    FROM metering_usageinterval i
    LEFT JOIN catalog_flavor f ON f.id = i.flavor_id
    WHERE i.site_id IN (SELECT site FROM asked) AND i.meter IN ('gpu_held', 'gpu_allocated') AND i.started_at < %(last)s
      AND (i.ended_at IS NULL OR i.ended_at > %(first)s)
),
took AS (
    SELECT o.site_id AS site, o.gpu_type_id AS gpu_type, i.meter, i.quantity, i.starts_at, i.ends_at
    FROM placed i
    JOIN catalog_gpupool o ON o.id = i.pool
    JOIN asked a ON a.site = o.site_id AND a.gpu_type = o.gpu_type_id
),
told AS (
    SELECT site, gpu_type, CASE WHEN known THEN devices ELSE 0 END AS capacity, CASE WHEN known THEN 1 ELSE 0 END AS looked,
           CASE WHEN known THEN 0 ELSE devices END AS unknown, 0 AS held, 0 AS running, starts_at, ends_at
    FROM had
    UNION ALL
    SELECT site, gpu_type, 0, 0, 0, CASE WHEN meter = 'gpu_held' THEN quantity ELSE 0 END,
           CASE WHEN meter = 'gpu_held' THEN 0 ELSE quantity END, starts_at, ends_at
    FROM took
),
cut AS (
    SELECT t.*, greatest(t.starts_at, %(first)s) AS first, least(t.ends_at, %(last)s, %(now)s) AS last FROM told t
),
change AS (
    SELECT site, gpu_type, first AS at, capacity, looked, unknown, held, running FROM cut WHERE first < last
    UNION ALL
    SELECT site, gpu_type, last, -capacity, -looked, -unknown, -held, -running FROM cut WHERE first < last
    UNION ALL
    SELECT a.site, a.gpu_type, s.at, 0, 0, 0, 0, 0 FROM asked a CROSS JOIN unnest(%(cuts)s::timestamptz[]) AS s (at)
    WHERE s.at < least(%(last)s, %(now)s)
),
moment AS (
    SELECT site, gpu_type, at, sum(capacity) AS capacity, sum(looked) AS looked, sum(unknown) AS unknown, sum(held) AS held,
           sum(running) AS running
    FROM change
    GROUP BY 1, 2, 3
),
level AS (
    SELECT site, gpu_type, at AS starts_at, lead(at) OVER place AS ends_at, sum(capacity) OVER place AS capacity,
           sum(looked) OVER place > 0 AS looked, sum(unknown) OVER place AS unknown, sum(held) OVER place AS held,
           sum(running) OVER place AS running,
           greatest(sum(held) OVER place, sum(running) OVER place) AS taken
    FROM moment
    WINDOW place AS (PARTITION BY site, gpu_type ORDER BY at)
),
