-- Tiers by volume, then rounding once per line and sharing out to the finer cells by largest remainder. Before it:
-- counted.sql, and graduated.sql or not_graduated.sql.
, volume AS (
    SELECT v.month, v.project, v.rate, r.price_micro
    FROM (
        SELECT c.month, c.project, t.rate, sum(c.unit_seconds) AS units
        FROM counted c
        JOIN tariff t ON t.id = c.stretch AND t.tier_mode = 'volume'
        GROUP BY 1, 2, 3
    ) v
    JOIN rate_tier r ON r.rate = v.rate AND r.from_units <= v.units AND r.to_units > v.units
),
cell AS (
    SELECT m.month, m.slot, m.project, m.workspace, t.flavor, m.resource, t.meter, t.price_class, m.surplus, t.status, t.divisor,
           div(2 * m.price_micro::numeric * CASE WHEN m.surplus THEN t.surplus_percent ELSE 100 END * (10000 - t.discount)
               + 1000000, 2000000) AS price_micro,
           sum(m.unit_seconds) AS unit_seconds, bool_or(m.estimated) AS estimated
    FROM (
        SELECT c.month, c.slot, c.project, c.workspace, c.resource, c.surplus, c.stretch,
               coalesce(v.price_micro, f.price_micro) AS price_micro, c.estimated, c.unit_seconds
        FROM counted c
        JOIN tariff f ON f.id = c.stretch
        LEFT JOIN volume v ON v.month = c.month AND v.project = c.project AND v.rate = f.rate
        UNION ALL
        SELECT month, slot, project, workspace, resource, surplus, stretch, price_micro, estimated, unit_seconds FROM tiered
    ) m
    JOIN tariff t ON t.id = m.stretch
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
),
charged AS (
    SELECT c.*, c.unit_seconds * c.price_micro AS numerator, sum(c.unit_seconds * c.price_micro) OVER line AS line_numerator,
           bool_or(c.estimated) OVER line AS line_estimated
    FROM cell c
    WINDOW line AS (PARTITION BY month, project, flavor, resource, meter, price_class, surplus, price_micro, status)
),
line AS (
    SELECT h.*, div(numerator, divisor) AS share,
           div(2 * line_numerator + divisor, 2 * divisor::numeric) - sum(div(numerator, divisor)) OVER line AS left_over,
           row_number() OVER (
               PARTITION BY month, project, flavor, resource, meter, price_class, surplus, price_micro, status
               ORDER BY mod(numerator, divisor) DESC, slot, workspace
           ) AS place
    FROM charged h
    WINDOW line AS (PARTITION BY month, project, flavor, resource, meter, price_class, surplus, price_micro, status)
),
rated AS (
    SELECT month, slot, project, workspace, flavor, resource, meter, price_class, surplus, status, price_micro, unit_seconds,
           share + CASE WHEN place <= left_over THEN 1 ELSE 0 END AS minor, line_estimated AS estimated
    FROM line
)
