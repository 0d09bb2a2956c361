-- Unit-seconds of a project by day and by holder, from nothing but its intervals; what is open counts to the end.
-- Parameters: project, starts_at, until, whole (a month, so by holder too), day_starts, day_ends.
used AS MATERIALIZED (
    SELECT coalesce(i.workspace_id, i.cluster_id) AS holder, i.flavor_id AS flavor, i.meter,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource, i.surplus, i.quantity,
           greatest(i.started_at, %(starts_at)s) AS starts_at, least(coalesce(i.ended_at, %(until)s), %(until)s) AS ends_at
    FROM metering_usageinterval i
    WHERE i.project_id = %(project)s AND i.started_at < %(until)s AND (i.ended_at IS NULL OR i.ended_at > %(starts_at)s)
),
by_day AS (
    SELECT d.starts_at, u.flavor, u.meter, u.resource, u.surplus,
           sum(u.quantity * extract(EPOCH FROM least(u.ends_at, d.ends_at) - greatest(u.starts_at, d.starts_at))::bigint)::bigint
               AS unit_seconds
    FROM used u
    JOIN unnest(%(day_starts)s::timestamptz[], %(day_ends)s::timestamptz[]) AS d (starts_at, ends_at)
        ON u.starts_at < d.ends_at AND u.ends_at > d.starts_at
    WHERE u.ends_at > u.starts_at
    GROUP BY 1, 2, 3, 4, 5
),
by_holder AS (
    SELECT u.holder, u.flavor, u.meter, u.resource, u.surplus,
           sum(u.quantity * extract(EPOCH FROM u.ends_at - u.starts_at)::bigint)::bigint AS unit_seconds
    FROM used u
    WHERE %(whole)s AND u.ends_at > u.starts_at
    GROUP BY 1, 2, 3, 4, 5
)
