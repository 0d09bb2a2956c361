-- What every project's part of a month is rated from, as a number: usage up to the month's end, whatever its order, with
-- sessions that are padded into the month (added: the most that a rate pads), and the prices up to then.
-- Parameters: months, starts, ends.
WITH span AS (
    SELECT * FROM unnest(%(months)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
        AS s (month, starts_at, ends_at)
),
price AS (
    SELECT s.month, row('rate', r.id, r.price_micro, r.surplus_percent, r.tier_mode, r.increment_seconds, r.minimum_seconds,
               extract(EPOCH FROM r.valid_from), extract(EPOCH FROM least(r.valid_to, s.ends_at)))::text AS said
    FROM span s
    JOIN billing_rate r ON r.valid_from < s.ends_at
    UNION ALL
    SELECT s.month, row('tier', t.rate_id, t.from_unit_hours, t.price_micro)::text
    FROM span s
    JOIN billing_rate r ON r.valid_from < s.ends_at
    JOIN billing_ratetier t ON t.rate_id = r.id
    UNION ALL
    SELECT s.month, row('discount', d.id, d.basis_points, extract(EPOCH FROM d.valid_from),
               extract(EPOCH FROM least(d.valid_to, s.ends_at)))::text
    FROM span s
    JOIN billing_discount d ON d.valid_from < s.ends_at
),
prices AS (
    SELECT s.month, coalesce(sum(hashtextextended(p.said, 0)::numeric), 0) AS print
    FROM span s LEFT JOIN price p ON p.month = s.month
    GROUP BY s.month
),
padding AS (
    SELECT coalesce(max(greatest(increment_seconds, minimum_seconds)), 0) * interval '1 second' AS added
    FROM billing_rate WHERE increment_seconds > 1 OR minimum_seconds > 0
),
used AS (
    SELECT s.month, i.project_id AS project,
           sum(hashtextextended(row(coalesce(i.workspace_id, i.cluster_id), i.flavor_id, i.resource_name, i.meter, i.quantity,
               i.surplus, extract(EPOCH FROM i.started_at), extract(EPOCH FROM least(i.ended_at, s.ends_at)))::text, 0)::numeric) AS print,
           count(*) AS intervals
    FROM span s
    JOIN metering_usageinterval i
        ON i.started_at < s.ends_at
        AND (i.ended_at IS NULL OR i.ended_at > s.starts_at - (SELECT added FROM padding))
    GROUP BY 1, 2
)
INSERT INTO close_print
SELECT u.month, u.project, u.print::text || '/' || p.print::text, u.intervals
FROM used u
JOIN prices p ON p.month = u.month
