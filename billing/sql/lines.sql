-- The heart of rating.md: usage × tariff over slots of months (a slot is the month itself or a day of it), tiers, rounded
-- once per line and shared out to the finer cells by largest remainder. The same for the portal's tables and for files:
-- who comes before it defines the CTEs slot, usage, tariff and rate_tier, whatever their keys are.
-- Parameters: by_workspace.
, counted AS (
    SELECT s.month, s.slot, u.project, CASE WHEN %(by_workspace)s THEN u.workspace END AS workspace, u.resource, u.surplus,
           t.id AS stretch, bool_or(u.estimated) AS estimated,
           sum(u.quantity * extract(EPOCH FROM
               least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at)
           )::bigint) AS unit_seconds
    FROM usage u
    JOIN slot s ON u.started_at < s.ends_at AND u.ended_at > s.starts_at
    JOIN tariff t
        ON t.key = u.key AND t.ware = u.ware AND t.meter = u.meter AND t.tier_mode <> 'graduated'
        AND t.starts_at < least(u.ended_at, s.ends_at) AND t.ends_at > greatest(u.started_at, s.starts_at)
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
volume AS (
    SELECT v.month, v.project, v.rate, r.price_micro
    FROM (
        SELECT c.month, c.project, t.rate, sum(c.unit_seconds) AS units
        FROM counted c
        JOIN tariff t ON t.id = c.stretch AND t.tier_mode = 'volume'
        GROUP BY 1, 2, 3
    ) v
    JOIN rate_tier r ON r.rate = v.rate AND r.from_units <= v.units AND r.to_units > v.units
),
in_order AS (
    SELECT s.month, s.slot, u.project, CASE WHEN %(by_workspace)s THEN u.workspace END AS workspace, u.resource, u.surplus,
           t.id AS stretch, t.rate, u.estimated, n.units,
           sum(n.units) OVER (
               PARTITION BY s.month, u.project, t.rate
               ORDER BY greatest(u.started_at, s.month_starts_at, t.starts_at), u.workspace, u.id, s.starts_at
               ROWS UNBOUNDED PRECEDING
           ) AS reached
    FROM tariff t
    JOIN usage u ON t.key = u.key AND t.ware = u.ware AND t.meter = u.meter
    JOIN slot s
        ON t.starts_at < least(u.ended_at, s.ends_at) AND t.ends_at > greatest(u.started_at, s.starts_at)
        AND u.started_at < s.ends_at AND u.ended_at > s.starts_at
    CROSS JOIN LATERAL (
        SELECT u.quantity * extract(EPOCH FROM
            least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at)
        )::bigint AS units
    ) n
    WHERE t.tier_mode = 'graduated'
),
tiered AS (
    SELECT o.month, o.slot, o.project, o.workspace, o.resource, o.surplus, o.stretch, r.price_micro, o.estimated,
           least(o.reached, r.to_units) - greatest(o.reached - o.units, r.from_units) AS unit_seconds
    FROM in_order o
    JOIN rate_tier r ON r.rate = o.rate AND r.from_units < o.reached AND r.to_units > o.reached - o.units
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
