-- The `most` of the holders that will cost most, and what is open by holder of these, and of the others together. open.sql and worth.sql
-- come before it. Parameter: most.
, place AS MATERIALIZED (
    SELECT o.holder, o.kind
    FROM open o
    JOIN payer p ON p.project = o.project
    JOIN worth w ON w.key = p.key AND w.ware = o.ware AND w.meter = o.meter AND w.surplus = o.surplus AND w.starts_at < o.until
    GROUP BY 1, 2
    ORDER BY sum(o.quantity * w.micro * extract(EPOCH FROM least(w.ends_at, o.until) - w.starts_at)::bigint) DESC NULLS LAST,
             o.holder
    LIMIT %(most)s
)
, told AS (
    SELECT o.project, CASE WHEN n.kind IS NOT NULL THEN o.holder END AS holder, coalesce(n.kind, '') AS kind, o.ware, o.meter, o.surplus,
           o.until, sum(o.quantity) AS quantity
    FROM open o
    LEFT JOIN place n
        ON n.kind = o.kind AND coalesce(n.holder, '00000000-0000-0000-0000-000000000000')
            = coalesce(o.holder, '00000000-0000-0000-0000-000000000000')
    GROUP BY 1, 2, 3, 4, 5, 6, 7
)
