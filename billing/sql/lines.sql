-- Rounding once per line and sharing out to the finer cells by largest remainder. Before it: cells.sql, and invoiced.sql or
-- not_invoiced.sql.
, line AS (
    SELECT c.*, div(2 * sum(remainder) OVER line + divisor, 2 * divisor::numeric) AS left_over,
           bool_or(estimated) OVER line AS line_estimated, row_number() OVER line AS place
    FROM (
        SELECT n.*, div(numerator, divisor) AS share, mod(numerator, divisor)::bigint AS remainder
        FROM (SELECT c.*, c.unit_seconds * c.price_micro AS numerator FROM cell c) n
    ) c
    WINDOW line AS (
        PARTITION BY kind, price_micro, project, month, surplus, resource ORDER BY remainder DESC, slot, holder
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )
),
rated AS (
    SELECT l.month, l.slot, l.project, l.holder, k.flavor, l.resource, k.meter, k.price_class, l.surplus, k.status, l.price_micro,
           l.unit_seconds, l.share + CASE WHEN l.place <= l.left_over THEN 1 ELSE 0 END AS minor, l.line_estimated AS estimated
    FROM line l
    JOIN kind k ON k.kind = l.kind
)
