-- The `most` of the holders that will cost most. open.sql and worth.sql come before it. Parameters: most, last.
, place AS MATERIALIZED (
    SELECT o.holder, o.kind
    FROM open o
    JOIN payer p ON p.project = o.project
    JOIN worth w ON w.key = p.key AND w.ware = o.ware AND w.meter = o.meter AND w.surplus = o.surplus AND w.starts_at < o.until
    GROUP BY 1, 2
    ORDER BY sum(o.quantity * w.micro * extract(EPOCH FROM least(w.ends_at, o.until, %(last)s) - w.starts_at)::bigint) DESC NULLS LAST,
             o.holder
    LIMIT %(most)s
)
