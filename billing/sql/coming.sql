-- What of that is still to come in each slot, by published prices: by project, and by holder where some of them are told apart, the dearest
-- first; the rest of them has none. numerator: of the charge in minor units (rating.md, 1), over `divisor`; and GPU-seconds held.
-- What is not told apart is added up before it meets prices and slots. open.sql, worth.sql, dearest.sql or
-- no_dearest.sql, and cards.sql come before it.
SELECT o.project, o.holder, o.kind, s.number, p.currency, p.divisor, coalesce(sum(o.quantity * e.seconds * w.micro), 0),
       coalesce(sum(o.quantity * e.seconds * coalesce(k.share, 1)) FILTER (WHERE o.meter = 'gpu_held'), 0)::bigint
FROM told o
LEFT JOIN card k ON k.ware = o.ware
JOIN payer p ON p.project = o.project
JOIN worth w ON w.key = p.key AND w.ware = o.ware AND w.meter = o.meter AND w.surplus = o.surplus AND w.starts_at < o.until
JOIN slot s ON s.starts_at < least(w.ends_at, o.until) AND s.ends_at > w.starts_at
CROSS JOIN LATERAL (
    SELECT extract(EPOCH FROM least(w.ends_at, o.until, s.ends_at) - greatest(w.starts_at, s.starts_at))::bigint AS seconds
) e
GROUP BY 1, 2, 3, 4, 5, 6
