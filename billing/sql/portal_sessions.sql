-- The same as portal_usage.sql where a rate has an increment or a minimum: sessions end when what is charged of them ends,
-- by the rate in force at their start. Parameters: also most_added (seconds) and those of tariff_read.sql.
session_rate AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(s_keys)s::uuid[], %(s_wares)s::uuid[], %(s_meters)s::text[], %(s_owns)s::boolean[], %(s_plains)s::boolean[],
        %(s_froms)s::timestamptz[], %(s_tos)s::timestamptz[], %(s_increments)s::bigint[], %(s_minimums)s::bigint[]
    ) AS s (key, ware, meter, own, plain, valid_from, valid_to, increment_seconds, minimum_seconds)
),
gap AS NOT MATERIALIZED (
    SELECT site_id AS site, range_agg(tstzrange(starts_at, ends_at, '[]')) AS ranges
    FROM metering_metergap
    WHERE starts_at < %(last)s AND ends_at > %(first)s
    GROUP BY site_id
),
session AS NOT MATERIALIZED (
    SELECT i.*, p.key, coalesce(
               i.flavor_id, CASE WHEN i.resource_name = ANY (%(n_names)s::text[]) THEN md5(i.resource_name)::uuid END,
               '00000000-0000-0000-0000-000000000000'
           ) AS ware,
           coalesce(i.ended_at, %(now)s) AS really_ended_at
    FROM metering_usageinterval i
    JOIN payer p ON p.project = i.project_id
    WHERE (%(projects_asked)s::uuid[] IS NULL OR i.project_id = ANY (%(projects_asked)s::uuid[]))
      AND (%(holders)s::uuid[] IS NULL OR i.workspace_id = ANY (%(holders)s::uuid[]) OR i.cluster_id = ANY (%(holders)s::uuid[]))
      AND i.started_at < %(last)s
      AND (i.ended_at IS NULL OR i.ended_at > %(first)s - interval '1 second' * %(most_added)s)
      AND coalesce(i.ended_at, %(now)s) > i.started_at
),
metered AS MATERIALIZED (
    SELECT i.id, i.project_id AS project, coalesce(i.workspace_id, i.cluster_id) AS holder, i.key, i.ware, i.meter,
           i.quantity, i.started_at,
           i.started_at + interval '1 second' * greatest(
               coalesce(own.minimum_seconds, standard.minimum_seconds, own_plain.minimum_seconds, plain.minimum_seconds, 0),
               ceil(extract(EPOCH FROM i.really_ended_at - i.started_at) / e.increment) * e.increment
           )::bigint AS ended_at,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource, i.surplus,
           g.site IS NOT NULL AND i.meter = ANY (%(observed)s)
               AND g.ranges && tstzrange(i.started_at, i.really_ended_at, '[]') AS estimated
    FROM session i
    LEFT JOIN session_rate own
        ON own.own AND NOT own.plain AND own.key = i.key AND own.ware = i.ware AND own.meter = i.meter
        AND own.valid_from <= i.started_at AND own.valid_to > i.started_at
    LEFT JOIN session_rate standard
        ON NOT standard.own AND NOT standard.plain AND standard.key = i.key AND standard.ware = i.ware
        AND standard.meter = i.meter AND standard.valid_from <= i.started_at AND standard.valid_to > i.started_at
    LEFT JOIN session_rate own_plain
        ON own_plain.own AND own_plain.plain AND own_plain.key = i.key AND own_plain.ware = i.ware AND own_plain.meter = i.meter
        AND own_plain.valid_from <= i.started_at AND own_plain.valid_to > i.started_at
    LEFT JOIN session_rate plain
        ON NOT plain.own AND plain.plain AND plain.key = i.key AND plain.ware = i.ware AND plain.meter = i.meter
        AND plain.valid_from <= i.started_at AND plain.valid_to > i.started_at
    CROSS JOIN LATERAL (
        SELECT coalesce(
            own.increment_seconds, standard.increment_seconds, own_plain.increment_seconds, plain.increment_seconds, 1
        ) AS increment
    ) e
    LEFT JOIN gap g ON g.site = i.site_id
)
