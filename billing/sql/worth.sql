-- Slots to come, and what a unit-hour is worth in each stretch of a tariff, by the key of who pays by it: told of every
-- project, it would be as many rows as prices times projects. Of stretches only what is not over at `now`. Parameters: now,
-- slots (numbers), starts, ends.
, slot AS (
    SELECT * FROM unnest(%(slots)s::int[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS s (number, starts_at, ends_at)
),
worth AS MATERIALIZED (
    SELECT t.key, t.ware, t.meter, greatest(t.starts_at, %(now)s) AS starts_at, t.ends_at, s.surplus,
           div(2 * t.price_micro::numeric * CASE WHEN s.surplus THEN t.surplus_percent ELSE 100 END * (10000 - t.discount) + 1000000,
               2000000) AS micro
    FROM tariff t
    CROSS JOIN (VALUES (false), (true)) AS s (surplus)
    WHERE t.ends_at > %(now)s
)
