-- The price of every stretch of the tariff, without and with surplus, worked out once for all cells of it; by factor where a tier
-- has another price. What a line is of the tariff is one number (kind) while its cells, of which there are many, are grouped and
-- sorted. tariff comes before it.
, price AS MATERIALIZED (
    SELECT t.id AS stretch, t.key, t.ware, t.meter, t.starts_at, t.ends_at, t.rate, t.tier_mode, t.flavor, t.price_class, t.status,
           t.divisor, s.surplus, f.factor, div(2 * t.price_micro::numeric * f.factor + 1000000, 2000000) AS price_micro,
           dense_rank() OVER (ORDER BY t.flavor, t.meter, t.price_class, t.status, t.divisor) AS kind
    FROM tariff t
    CROSS JOIN (VALUES (false), (true)) AS s (surplus)
    CROSS JOIN LATERAL (SELECT CASE WHEN s.surplus THEN t.surplus_percent ELSE 100 END * (10000 - t.discount)) AS f (factor)
),
counted_kind AS MATERIALIZED (
    SELECT DISTINCT ON (kind) kind, flavor, meter, price_class, status, divisor FROM price ORDER BY kind
)
