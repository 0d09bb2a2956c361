-- What one organization pays for a unit-hour in every stretch of [first, last) with one price, in 10^-10 of its currency: with its
-- discount, rounded to the millionth as lines.sql rounds it; of flavors, what all share, and storage classes with a price. The
-- CTEs of tariff.sql come before it.
SELECT nullif(t.ware, '00000000-0000-0000-0000-000000000000'), t.meter, t.starts_at, t.ends_at,
       div(2 * t.price_micro::numeric * (10000 - t.discount) + 10000, 20000)::bigint * 10000, t.tier_mode <> '', t.rate, t.discount
FROM tariff t
WHERE t.price_micro IS NOT NULL AND (
    t.ware = t.flavor
    OR t.meter = 'storage_held' AND t.ware IN (SELECT n.ware FROM unsold n WHERE starts_with(n.resource_name, 'storage:'))
)
ORDER BY t.starts_at
