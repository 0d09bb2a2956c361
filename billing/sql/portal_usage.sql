-- The slots that are asked about, and the intervals that touch them. tariff.sql comes before it.
-- Parameters: months, slots, starts, ends, now, projects.
, slot AS (
    SELECT * FROM unnest(%(months)s::date[], %(slots)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
        AS s (month, slot, starts_at, ends_at)
),
usage AS (
    SELECT i.project_id AS project, i.workspace_id AS workspace, k.id AS flavor, k.price_class, i.meter, i.quantity,
           i.started_at, coalesce(i.ended_at, %(now)s) AS ended_at,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource
    FROM metering_usageinterval i
    JOIN flavor_key k ON k.id = coalesce(i.flavor_id, '00000000-0000-0000-0000-000000000000')
    WHERE (%(projects)s::uuid[] IS NULL OR i.project_id = ANY (%(projects)s::uuid[]))
      AND i.started_at < (SELECT max(ends_at) FROM slot)
      AND coalesce(i.ended_at, %(now)s) > greatest(i.started_at, (SELECT min(starts_at) FROM slot))
)
