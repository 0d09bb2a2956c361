-- Graduated tiers, filled in the order of time; see rating.md §9. Before it: counted.sql.
, in_order AS (
    SELECT s.month, s.slot, u.project, CASE WHEN %(by_holder)s THEN u.holder END AS holder, u.resource, u.surplus,
           t.id AS stretch, t.rate, u.estimated, n.units,
           sum(n.units) OVER (
               PARTITION BY s.month, u.project, t.rate
               ORDER BY greatest(u.started_at, s.month_starts_at, t.starts_at), u.holder, u.id, s.starts_at
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
    SELECT o.month, o.slot, o.project, o.holder, o.resource, o.surplus, p.kind, p.divisor, r.price_micro, p.factor, o.estimated,
           least(o.reached, r.to_units) - greatest(o.reached - o.units, r.from_units) AS unit_seconds
    FROM in_order o
    JOIN price p ON p.stretch = o.stretch AND p.surplus = o.surplus
    JOIN rate_tier r ON r.rate = o.rate AND r.from_units < o.reached AND r.to_units > o.reached - o.units
)
