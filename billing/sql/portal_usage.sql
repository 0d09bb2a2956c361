-- The intervals that touch the slots, where every session ends when it ends. portal_tariff.sql comes before it. From here on
-- `holder` is the id of the workspace or of the cluster that held it.
-- Parameters: first, last, now, projects_asked, observed (meters that can have gaps).
gap AS NOT MATERIALIZED (
    SELECT site_id AS site, range_agg(tstzrange(starts_at, ends_at, '[]')) AS ranges
    FROM metering_metergap
    WHERE starts_at < %(last)s AND ends_at > %(first)s
    GROUP BY site_id
),
metered AS NOT MATERIALIZED (
    SELECT i.id, i.project_id AS project, coalesce(i.workspace_id, i.cluster_id) AS holder, p.key,
           coalesce(
               i.flavor_id, CASE WHEN i.resource_name = ANY (%(n_names)s::text[]) THEN md5(i.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ) AS ware, i.meter, i.quantity, i.started_at,
           coalesce(i.ended_at, %(now)s) AS ended_at, CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource,
           i.surplus,
           g.site IS NOT NULL AND i.meter = ANY (%(observed)s)
               AND g.ranges && tstzrange(i.started_at, coalesce(i.ended_at, %(now)s), '[]') AS estimated
    FROM metering_usageinterval i
    JOIN payer p ON p.project = i.project_id
    LEFT JOIN gap g ON g.site = i.site_id
    WHERE (%(projects_asked)s::uuid[] IS NULL OR i.project_id = ANY (%(projects_asked)s::uuid[]))
      AND (%(holders)s::uuid[] IS NULL OR i.workspace_id = ANY (%(holders)s::uuid[]) OR i.cluster_id = ANY (%(holders)s::uuid[]))
      AND i.started_at < %(last)s AND (i.ended_at IS NULL OR i.ended_at > %(first)s)
      AND coalesce(i.ended_at, %(now)s) > i.started_at
)
