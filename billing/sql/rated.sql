-- Usage × tariff over slots of months (a slot is the month itself or a day of it), rounded once per line and shared out
-- to the finer cells by largest remainder. See rating.md; the CTEs of tariff.sql come before these.
-- Parameters: card, meters, months, slots, starts, ends, now, projects, by_workspace, divisor.
, slot AS (
    SELECT * FROM unnest(%(months)s::date[], %(slots)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
        AS s (month, slot, starts_at, ends_at)
),
usage AS (
    SELECT i.project_id, i.workspace_id, i.flavor_id, i.meter, i.quantity, i.started_at,
           coalesce(i.ended_at, %(now)s) AS ended_at,
           coalesce(i.flavor_id, '00000000-0000-0000-0000-000000000000') AS flavor_key,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource
    FROM metering_usageinterval i
    WHERE (%(projects)s::uuid[] IS NULL OR i.project_id = ANY (%(projects)s::uuid[]))
      AND i.started_at < (SELECT max(ends_at) FROM slot)
      AND coalesce(i.ended_at, %(now)s) > greatest(i.started_at, (SELECT min(starts_at) FROM slot))
),
cell AS (
    SELECT s.month, s.slot, u.project_id, CASE WHEN %(by_workspace)s THEN u.workspace_id END AS workspace_id,
           u.flavor_id, u.resource, u.meter, t.price_class, t.price_micro, t.status,
           sum(u.quantity * extract(EPOCH FROM
               least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at)
           )::bigint) AS unit_seconds
    FROM usage u
    JOIN slot s ON u.started_at < s.ends_at AND u.ended_at > s.starts_at
    JOIN tariff t
        ON t.flavor_key = u.flavor_key AND t.meter = u.meter
        AND t.starts_at < least(u.ended_at, s.ends_at) AND t.ends_at > greatest(u.started_at, s.starts_at)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
),
charged AS (
    SELECT c.*, c.unit_seconds * c.price_micro AS numerator,
           sum(c.unit_seconds * c.price_micro) OVER line AS line_numerator
    FROM cell c
    WINDOW line AS (
        PARTITION BY month, project_id, flavor_id, resource, meter, price_class, price_micro, status
    )
),
shared AS (
    SELECT h.*, div(numerator, %(divisor)s) AS share,
           div(2 * line_numerator + %(divisor)s, 2 * %(divisor)s::numeric)
               - sum(div(numerator, %(divisor)s)) OVER line AS left_over,
           row_number() OVER (
               PARTITION BY month, project_id, flavor_id, resource, meter, price_class, price_micro, status
               ORDER BY mod(numerator, %(divisor)s) DESC, slot, workspace_id
           ) AS place
    FROM charged h
    WINDOW line AS (
        PARTITION BY month, project_id, flavor_id, resource, meter, price_class, price_micro, status
    )
)
SELECT d.month, d.slot, d.project_id, p.slug AS project, d.workspace_id, w.name AS workspace, d.flavor_id,
       f.slug AS flavor, f.name AS flavor_name, g.slug AS gpu_type, d.resource, d.meter, d.price_class, d.status,
       d.price_micro, d.unit_seconds::bigint AS unit_seconds,
       (d.share + CASE WHEN d.place <= d.left_over THEN 1 ELSE 0 END)::bigint AS minor
FROM shared d
JOIN tenants_project p ON p.id = d.project_id
LEFT JOIN workspaces_workspace w ON w.id = d.workspace_id
LEFT JOIN catalog_flavor f ON f.id = d.flavor_id
LEFT JOIN catalog_gpupool o ON o.id = f.pool_id
LEFT JOIN catalog_gputype g ON g.id = o.gpu_type_id
ORDER BY d.month, d.slot, p.slug, d.meter, f.slug NULLS LAST, d.resource, d.price_class, d.price_micro NULLS LAST,
         d.status, d.workspace_id
