-- What was counted by its price, with tiers by volume. Before it: counted.sql, and graduated.sql or not_graduated.sql. Cells are
-- many: what a line is of the tariff is one number (kind) while they are grouped and sorted, and each thing is worked out once.
, by_volume AS MATERIALIZED (
    SELECT t.id AS stretch, t.rate FROM tariff t WHERE t.tier_mode = 'volume'
),
volume AS MATERIALIZED (
    SELECT v.month, v.project, v.rate, r.price_micro
    FROM (
        SELECT c.month, c.project, t.rate, sum(c.unit_seconds) AS units
        FROM by_volume t
        JOIN counted c ON c.stretch = t.stretch
        GROUP BY 1, 2, 3
    ) v
    JOIN rate_tier r ON r.rate = v.rate AND r.from_units <= v.units AND r.to_units > v.units
),
price AS MATERIALIZED (
    SELECT t.id AS stretch, t.rate, t.flavor, t.meter, t.price_class, t.status, t.divisor, t.price_micro, t.surplus_percent, t.discount,
           dense_rank() OVER (ORDER BY t.flavor, t.meter, t.price_class, t.status, t.divisor) AS kind
    FROM tariff t
),
counted_kind AS MATERIALIZED (
    SELECT DISTINCT ON (kind) kind, flavor, meter, price_class, status, divisor FROM price ORDER BY kind
),
counted_cell AS (
    SELECT m.kind, m.month, m.slot, m.project, m.holder, m.resource, m.surplus, m.divisor,
           div(2 * m.price_micro::numeric * CASE WHEN m.surplus THEN m.surplus_percent ELSE 100 END * (10000 - m.discount)
               + 1000000, 2000000) AS price_micro,
           sum(m.unit_seconds) AS unit_seconds, bool_or(m.estimated) AS estimated
    FROM (
        SELECT c.month, c.slot, c.project, c.holder, c.resource, c.surplus, p.kind, p.divisor, p.surplus_percent, p.discount,
               coalesce(v.price_micro, p.price_micro) AS price_micro, c.estimated, c.unit_seconds
        FROM counted c
        JOIN price p ON p.stretch = c.stretch
        LEFT JOIN volume v ON v.month = c.month AND v.project = c.project AND v.rate = p.rate
        UNION ALL
        SELECT c.month, c.slot, c.project, c.holder, c.resource, c.surplus, p.kind, p.divisor, p.surplus_percent, p.discount,
               c.price_micro, c.estimated, c.unit_seconds
        FROM tiered c
        JOIN price p ON p.stretch = c.stretch
    ) m
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
)
