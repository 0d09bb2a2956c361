-- What was counted by its price. Before it: counted.sql, graduated.sql or not_graduated.sql, and volume.sql or no_volume.sql.
, counted_cell AS (
    SELECT m.kind, m.month, m.slot, m.project, m.holder, m.resource, m.surplus, m.divisor,
           div(2 * m.price_micro::numeric * m.factor + 1000000, 2000000) AS price_micro,
           sum(m.unit_seconds) AS unit_seconds, bool_or(m.estimated) AS estimated
    FROM (
        SELECT c.month, c.slot, c.project, c.holder, c.resource, c.surplus, c.kind, c.divisor, c.factor,
               coalesce(v.price_micro, c.price_micro) AS price_micro, c.estimated, c.unit_seconds
        FROM counted c
        LEFT JOIN volume v ON v.month = c.month AND v.project = c.project AND v.rate = c.rate
        UNION ALL
        SELECT month, slot, project, holder, resource, surplus, kind, divisor, factor, price_micro, estimated, unit_seconds FROM tiered
    ) m
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
)
