-- The heart of rating.md: usage × tariff over slots of months (a slot is the month itself or a day of it), rounded once
-- per line and shared out to the finer cells by largest remainder. The same for the portal's tables and for files: who
-- comes before it defines the CTEs slot, usage and tariff, whatever their keys are.
-- Parameters: by_workspace, divisor.
, cell AS (
    SELECT s.month, s.slot, u.project, CASE WHEN %(by_workspace)s THEN u.workspace END AS workspace,
           u.flavor, u.resource, u.meter, u.price_class, t.price_micro, t.status,
           sum(u.quantity * extract(EPOCH FROM
               least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at)
           )::bigint) AS unit_seconds
    FROM usage u
    JOIN slot s ON u.started_at < s.ends_at AND u.ended_at > s.starts_at
    JOIN tariff t
        ON t.flavor = u.flavor AND t.meter = u.meter AND t.price_class = u.price_class
        AND t.starts_at < least(u.ended_at, s.ends_at) AND t.ends_at > greatest(u.started_at, s.starts_at)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
),
charged AS (
    SELECT c.*, c.unit_seconds * c.price_micro AS numerator,
           sum(c.unit_seconds * c.price_micro) OVER line AS line_numerator
    FROM cell c
    WINDOW line AS (PARTITION BY month, project, flavor, resource, meter, price_class, price_micro, status)
),
line AS (
    SELECT h.*, div(numerator, %(divisor)s) AS share,
           div(2 * line_numerator + %(divisor)s, 2 * %(divisor)s::numeric)
               - sum(div(numerator, %(divisor)s)) OVER line AS left_over,
           row_number() OVER (
               PARTITION BY month, project, flavor, resource, meter, price_class, price_micro, status
               ORDER BY mod(numerator, %(divisor)s) DESC, slot, workspace
           ) AS place
    FROM charged h
    WINDOW line AS (PARTITION BY month, project, flavor, resource, meter, price_class, price_micro, status)
),
rated AS (
    SELECT month, slot, project, workspace, flavor, resource, meter, price_class, status, price_micro, unit_seconds,
           share + CASE WHEN place <= left_over THEN 1 ELSE 0 END AS minor
    FROM line
)
