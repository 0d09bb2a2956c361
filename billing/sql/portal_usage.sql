-- The slots that are asked about, and the intervals that touch them, padded to whole increments and the minimum of the
-- rate at their start. tariff.sql comes before it.
-- Parameters: months, slots, starts, ends, month_starts, first, last, now, projects, observed (meters that can have gaps).
, slot AS (
    SELECT * FROM unnest(
        %(months)s::date[], %(slots)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],
        %(month_starts)s::timestamptz[]
    ) AS s (month, slot, starts_at, ends_at, month_starts_at)
),
padded_key AS (
    SELECT DISTINCT key, flavor_key, meter FROM key_rate WHERE increment_seconds > 1 OR minimum_seconds > 0
),
session_rate AS (
    SELECT r.key, r.flavor_key, r.meter, r.own, r.valid_from, r.valid_to, r.increment_seconds, r.minimum_seconds
    FROM key_rate r
    JOIN padded_key p ON p.key = r.key AND p.flavor_key = r.flavor_key AND p.meter = r.meter
    JOIN flavor_key f ON f.id = r.flavor_key AND f.price_class = r.price_class
),
most_added AS (
    SELECT coalesce(max(greatest(increment_seconds, minimum_seconds)), 0) * interval '1 second' AS time FROM session_rate
),
gap AS (
    SELECT site_id AS site, range_agg(tstzrange(starts_at, ends_at, '[]')) AS ranges
    FROM metering_metergap
    WHERE starts_at < %(last)s AND ends_at > %(first)s
    GROUP BY site_id
),
usage AS NOT MATERIALIZED (
    SELECT i.id, i.project_id AS project, i.workspace_id AS workspace, p.key,
           coalesce(i.flavor_id, '00000000-0000-0000-0000-000000000000') AS ware, i.meter, i.quantity, i.started_at,
           CASE
               WHEN own.key IS NULL AND standard.key IS NULL THEN coalesce(i.ended_at, %(now)s)
               ELSE i.started_at + interval '1 second' * greatest(
                   coalesce(own.minimum_seconds, standard.minimum_seconds),
                   ceil(extract(EPOCH FROM coalesce(i.ended_at, %(now)s) - i.started_at)
                        / coalesce(own.increment_seconds, standard.increment_seconds))
                   * coalesce(own.increment_seconds, standard.increment_seconds)
               )::bigint
           END AS ended_at,
           CASE WHEN i.flavor_id IS NULL THEN i.resource_name ELSE '' END AS resource, i.surplus,
           g.site IS NOT NULL AND i.meter = ANY (%(observed)s)
               AND g.ranges && tstzrange(i.started_at, coalesce(i.ended_at, %(now)s), '[]') AS estimated
    FROM metering_usageinterval i
    JOIN payer p ON p.project = i.project_id
    LEFT JOIN session_rate own
        ON own.own AND own.key = p.key AND own.flavor_key = coalesce(i.flavor_id, '00000000-0000-0000-0000-000000000000')
        AND own.meter = i.meter AND own.valid_from <= i.started_at AND own.valid_to > i.started_at
    LEFT JOIN session_rate standard
        ON NOT standard.own AND standard.key = p.key
        AND standard.flavor_key = coalesce(i.flavor_id, '00000000-0000-0000-0000-000000000000')
        AND standard.meter = i.meter AND standard.valid_from <= i.started_at AND standard.valid_to > i.started_at
    LEFT JOIN gap g ON g.site = i.site_id
    WHERE (%(projects)s::uuid[] IS NULL OR i.project_id = ANY (%(projects)s::uuid[]))
      AND i.started_at < %(last)s
      AND (i.ended_at IS NULL OR i.ended_at > %(first)s - (SELECT time FROM most_added))
      AND coalesce(i.ended_at, %(now)s) > i.started_at
)
