-- What runs at `now`, by project and kind: what an hour of it costs at the prices of now, and the charge of what is still to come of it
-- until `last` (its numerator over `divisor`; rating.md, 1). Added up before it meets prices: thousands of rows become a few.
-- What is being given back still costs, but has nothing to come. open.sql and worth.sql come before it. Parameters: now, last.
, told AS MATERIALIZED (
    SELECT o.project, o.kind, o.ware, o.meter, o.surplus, o.until, sum(o.quantity) AS quantity
    FROM open o
    GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT o.project, o.kind, p.divisor, coalesce(sum(o.quantity * w.micro) FILTER (WHERE w.starts_at <= %(now)s), 0)::bigint,
       coalesce(sum(o.quantity * w.micro * greatest(extract(EPOCH FROM least(w.ends_at, o.until) - w.starts_at)::bigint, 0)), 0)
FROM told o
JOIN payer p ON p.project = o.project
JOIN worth w
    ON w.key = p.key AND w.ware = o.ware AND w.meter = o.meter AND w.surplus = o.surplus
    AND (w.starts_at < o.until OR w.starts_at <= %(now)s)
GROUP BY 1, 2, 3
