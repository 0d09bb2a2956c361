-- What one organization pays for a unit-hour in every stretch of [first, last) with one price, in 10^-10 of its currency:
-- exact, with its discount. The CTEs of tariff.sql come before it.
SELECT nullif(t.ware, '00000000-0000-0000-0000-000000000000'), t.meter, t.starts_at, t.ends_at,
       t.price_micro::bigint * (10000 - t.discount), t.tier_mode <> '', t.rate, t.discount
FROM tariff t
WHERE t.price_micro IS NOT NULL
ORDER BY t.starts_at
