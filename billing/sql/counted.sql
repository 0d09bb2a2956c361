-- The heart of rating.md: usage × tariff over slots of months (a slot is the month itself or a day of it). The same for the
-- portal's tables and for files: who comes before it defines slot, usage, tariff and rate_tier, whatever their keys are.
-- Overlap is written as NOT (before OR after): of four comparisons the planner would expect one row in 81.
-- Parameters: by_holder.
, counted_stretch AS (
    SELECT s.month, s.slot, u.project, CASE WHEN %(by_holder)s THEN u.holder END AS holder, u.resource, u.surplus,
           t.id AS stretch, bool_or(u.estimated) AS estimated,
           sum(u.quantity * extract(EPOCH FROM
               least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at)
           )::bigint) AS unit_seconds
    FROM usage u
    JOIN slot s ON NOT (u.started_at >= s.ends_at OR u.ended_at <= s.starts_at)
    JOIN tariff t
        ON t.key = u.key AND t.ware = u.ware AND t.meter = u.meter AND t.tier_mode <> 'graduated'
        AND NOT (t.starts_at >= least(u.ended_at, s.ends_at) OR t.ends_at <= greatest(u.started_at, s.starts_at))
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
counted AS (
    SELECT s.month, s.slot, s.project, s.holder, s.resource, s.surplus, p.rate, p.tier_mode, p.kind, p.divisor, p.price_micro, p.factor,
           s.estimated, s.unit_seconds
    FROM counted_stretch s
    JOIN price p ON p.stretch = s.stretch AND p.surplus = s.surplus
)
