-- What is open at `now` by project, kind, ware and meter, and by holder where that is asked: so many units at the unit
-- price of now, rounded as
-- lines.sql rounds it (of tiers the first). price_micro null: included in another price, or nobody has said what it costs.
-- It is added up before it meets prices: thousands of rows become a few. open.sql comes before it. Parameter: by_holder.
, held AS MATERIALIZED (
    SELECT o.project, p.key, p.currency, CASE WHEN %(by_holder)s THEN o.holder END AS holder, o.kind, o.ware, o.meter, o.resource,
           o.surplus, sum(o.quantity)::bigint AS quantity
    FROM open o
    JOIN payer p ON p.project = o.project
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
)
SELECT o.project, o.currency, o.holder, o.kind, nullif(t.flavor, '00000000-0000-0000-0000-000000000000'), o.meter, o.surplus,
       sum(o.quantity)::bigint,
       div(2 * t.price_micro::numeric * CASE WHEN o.surplus THEN t.surplus_percent ELSE 100 END * (10000 - t.discount) + 1000000,
           2000000)::bigint,
       t.status, t.tier_mode <> '', o.resource
FROM held o
JOIN tariff t ON t.key = o.key AND t.ware = o.ware AND t.meter = o.meter AND t.starts_at <= %(now)s AND t.ends_at > %(now)s
GROUP BY 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12
ORDER BY 1, 3, 4, 5, 6, 12, 7
