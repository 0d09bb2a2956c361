-- What one organization pays for a unit-hour at one instant, of flavors, what all share, and storage classes that have a price.
-- The CTEs of tariff.sql come before it. Parameter: now.
SELECT nullif(t.ware, '00000000-0000-0000-0000-000000000000'), t.meter,
       div(2 * t.price_micro::numeric * 100 * (10000 - t.discount) + 1000000, 2000000)::bigint
FROM tariff t
WHERE t.price_micro IS NOT NULL AND (
    t.ware = t.flavor
    OR t.meter = 'storage_held' AND t.ware IN (SELECT n.ware FROM unsold n WHERE starts_with(n.resource_name, 'storage:'))
)
