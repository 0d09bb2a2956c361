-- The same as portal_usage.sql and counted_pieces.sql for a look: what is past is taken from what was added up once, the rest
-- from its intervals, all as one snapshot. portal_tariff.sql comes before it. Only pieces of whole days can be kept; by holder
-- only a whole month as far as it is past. A month that was kept later than what is asked for is not used. Of the day that runs
-- so much is taken as is kept where the month is kept up to it, or the piece begins with it; never by holder.
-- Of a month without usage nothing need be kept, so it is not counted as one that was not.
-- What runs and began before the earliest moment that was not kept is added up there, so that thousands of running rows become
-- a few before they meet the pieces; ended rows seldom are alike. A gap is looked up apart: rows without seconds that say where
-- a sum is estimated.
-- Parameters: first, last, now, projects_asked, observed, by_holder, zone; piece_numbers, piece_months, piece_slots,
-- piece_starts, piece_ends, piece_whole.
piece AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(piece_numbers)s::int[], %(piece_months)s::date[], %(piece_slots)s::date[], %(piece_starts)s::timestamptz[],
        %(piece_ends)s::timestamptz[], %(piece_whole)s::boolean[]
    ) AS p (number, month, slot, starts_at, ends_at, whole)
),
part AS MATERIALIZED (
    SELECT y.project, y.key, b.number, b.month, b.slot, b.starts_at, b.ends_at, h.id AS kept, d.id AS today,
           CASE
               WHEN d.id IS NOT NULL THEN d.until
               WHEN h.id IS NOT NULL THEN greatest(b.starts_at, least(h.until, b.ends_at))
               ELSE b.starts_at
           END AS since
    FROM payer y
    CROSS JOIN piece b
    LEFT JOIN billing_keptmonth h
        ON h.project_id = y.project AND h.month = b.month AND h.zone = %(zone)s AND b.whole
        AND h.until <= %(now)s AND h.until > b.starts_at
        AND (NOT %(by_holder)s OR b.starts_at = h.starts_at AND b.ends_at >= h.until)
    LEFT JOIN billing_keptmonth d
        ON d.project_id = y.project AND d.month > b.month AND d.zone = %(zone)s AND b.whole AND NOT %(by_holder)s
        AND d.until <= %(now)s AND d.until > d.starts_at
        AND d.starts_at = coalesce(h.until, b.starts_at) AND d.starts_at < b.ends_at
),
recent AS MATERIALIZED (
    SELECT min(f.since) AS since
    FROM part f
    WHERE f.since < f.ends_at AND (
        EXISTS (
            SELECT 1 FROM metering_usageinterval i
            WHERE i.project_id = f.project AND i.ended_at IS NULL AND i.started_at < f.ends_at
        ) OR EXISTS (
            SELECT 1 FROM metering_usageinterval i
            WHERE i.project_id = f.project AND i.ended_at > f.since AND i.started_at < f.ends_at
        )
    )
),
metered AS MATERIALIZED (
    SELECT i.project_id AS project, i.holder,
           coalesce(
               i.flavor_id, CASE WHEN i.resource_name = ANY (%(n_names)s::text[]) THEN md5(i.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ) AS ware, i.meter, i.quantity, i.started_at, coalesce(i.ended_at, %(now)s) AS ended_at,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource, i.surplus
    FROM (
        SELECT project_id, CASE WHEN %(by_holder)s THEN coalesce(workspace_id, cluster_id) END AS holder, flavor_id, resource_name,
               meter, sum(quantity) AS quantity, greatest(started_at, (SELECT r.since FROM recent r)) AS started_at, ended_at, surplus
        FROM metering_usageinterval
        WHERE ended_at IS NULL AND NOT %(by_holder)s
        GROUP BY 1, 2, 3, 4, 5, 7, 8, 9
        UNION ALL
        SELECT project_id, CASE WHEN %(by_holder)s THEN coalesce(workspace_id, cluster_id) END, flavor_id, resource_name, meter,
               quantity, greatest(started_at, (SELECT r.since FROM recent r)), ended_at, surplus
        FROM metering_usageinterval
        WHERE ended_at > (SELECT r.since FROM recent r)
        UNION ALL
        SELECT project_id, coalesce(workspace_id, cluster_id), flavor_id, resource_name, meter, quantity, started_at, ended_at, surplus
        FROM metering_usageinterval
        WHERE ended_at IS NULL AND %(by_holder)s
    ) i
    WHERE (%(projects_asked)s::uuid[] IS NULL OR i.project_id = ANY (%(projects_asked)s::uuid[]))
      AND i.started_at < %(last)s AND coalesce(i.ended_at, %(now)s) > i.started_at
),
used AS (
    SELECT f.key, f.month, f.slot, f.starts_at, f.ends_at, f.project, NULL::uuid AS holder, coalesce(
               k.flavor_id, CASE WHEN k.resource_name = ANY (%(n_names)s::text[]) THEN md5(k.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ) AS ware,
           k.meter, k.resource_name AS resource, k.surplus, false AS estimated, k.unit_seconds
    FROM part f
    JOIN billing_keptday k ON k.kept_id IN (f.kept, f.today) AND k.starts_at >= f.starts_at AND k.starts_at < f.since
    WHERE NOT %(by_holder)s
    UNION ALL
    SELECT f.key, f.month, f.slot, f.starts_at, f.ends_at, f.project, k.holder, coalesce(
               k.flavor_id, CASE WHEN k.resource_name = ANY (%(n_names)s::text[]) THEN md5(k.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ), k.meter,
           k.resource_name, k.surplus, false, k.unit_seconds
    FROM part f
    JOIN billing_keptholder k ON k.kept_id = f.kept
    WHERE %(by_holder)s
    UNION ALL
    SELECT f.key, f.month, f.slot, f.starts_at, f.ends_at, f.project, u.holder, u.ware, u.meter, u.resource, u.surplus, false,
           u.quantity * extract(EPOCH FROM least(u.ended_at, f.ends_at) - greatest(u.started_at, f.since))::bigint
    FROM metered u
    JOIN part f ON f.project = u.project AND NOT (u.started_at >= f.ends_at OR u.ended_at <= f.since)
    WHERE f.since < f.ends_at AND f.since < (SELECT max(m.ended_at) FROM metered m)
    UNION ALL
    SELECT f.key, f.month, f.slot, f.starts_at, f.ends_at, i.project_id,
           CASE WHEN %(by_holder)s THEN coalesce(i.workspace_id, i.cluster_id) END,
           coalesce(
               i.flavor_id, CASE WHEN i.resource_name = ANY (%(n_names)s::text[]) THEN md5(i.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ), i.meter,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END, i.surplus, true, 0
    FROM metering_metergap g
    JOIN metering_usageinterval i
        ON i.site_id = g.site_id AND i.started_at <= g.ends_at AND coalesce(i.ended_at, %(now)s) >= g.starts_at
    JOIN part f
        ON f.project = i.project_id AND NOT (i.started_at >= f.ends_at OR coalesce(i.ended_at, %(now)s) <= f.starts_at)
    WHERE g.starts_at < %(last)s AND g.ends_at > %(first)s AND i.meter = ANY (%(observed)s)
      AND (%(projects_asked)s::uuid[] IS NULL OR i.project_id = ANY (%(projects_asked)s::uuid[]))
      AND i.started_at < %(last)s AND coalesce(i.ended_at, %(now)s) > greatest(i.started_at, %(first)s)
