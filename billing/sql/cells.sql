-- What was counted by its price. Every column of a group costs its comparisons: the month is its slot's, and the divisor its kind's.
-- Before it: counted.sql, graduated.sql or not_graduated.sql, and volume.sql or no_volume.sql.
, counted_cell AS (
    SELECT m.kind, m.holder, m.slot, m.project, m.surplus, m.resource,
           CASE
               WHEN m.tier_micro IS NULL THEN m.price_micro
               ELSE div(2 * m.tier_micro::numeric * m.factor + 1000000, 2000000)
           END AS price_micro,
           min(m.month) AS month, min(m.divisor) AS divisor, sum(m.unit_seconds) AS unit_seconds, bool_or(m.estimated) AS estimated
    FROM (
        SELECT c.month, c.slot, c.project, c.holder, c.resource, c.surplus, c.kind, c.divisor, c.factor, c.price_micro,
               v.price_micro AS tier_micro, c.estimated, c.unit_seconds
        FROM counted c
        LEFT JOIN volume v ON v.month = c.month AND v.project = c.project AND v.rate = c.rate
        UNION ALL
        SELECT month, slot, project, holder, resource, surplus, kind, divisor, factor, NULL, price_micro, estimated, unit_seconds
        FROM tiered
    ) m
    GROUP BY 1, 2, 3, 4, 5, 6, 7
)
