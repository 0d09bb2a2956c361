-- The tariff: for every flavor (and for none) and meter, all of time cut into stretches with one price, or with none.
-- Because it covers all of time, joining usage with it loses no second and counts none twice.
-- Parameters: card.
flavor_key AS (
    SELECT f.id, f.id AS flavor_id, f.price_class FROM catalog_flavor f
    UNION ALL
    SELECT '00000000-0000-0000-0000-000000000000', NULL, 'on_demand'
),
card_rate AS (
    SELECT coalesce(r.flavor_id, '00000000-0000-0000-0000-000000000000') AS flavor_key, r.meter, r.price_class,
           r.price_micro, r.valid_from, coalesce(r.valid_to, 'infinity'::timestamptz) AS valid_to
    FROM billing_rate r
    WHERE r.card_id = %(card)s
),
price_change AS (
    SELECT k.id AS flavor_key, '-infinity'::timestamptz AS at FROM flavor_key k
    UNION
    SELECT flavor_key, valid_from FROM card_rate
    UNION
    SELECT flavor_key, valid_to FROM card_rate
),
stretch AS (
    SELECT flavor_key, at AS starts_at,
           lead(at, 1, 'infinity'::timestamptz) OVER (PARTITION BY flavor_key ORDER BY at) AS ends_at
    FROM price_change
    WHERE at < 'infinity'
),
priced AS (
    SELECT s.flavor_key, k.flavor_id, m.meter, k.price_class, s.starts_at, s.ends_at, r.price_micro,
           bool_or(r.price_micro IS NOT NULL AND m.meter IN ('gpu_held', 'gpu_allocated'))
               OVER (PARTITION BY s.flavor_key, s.starts_at) AS gpu_is_priced
    FROM stretch s
    JOIN flavor_key k ON k.id = s.flavor_key
    CROSS JOIN unnest(%(meters)s::text[]) AS m (meter)
    LEFT JOIN card_rate r
        ON r.flavor_key = s.flavor_key AND r.meter = m.meter AND r.price_class = k.price_class
        AND r.valid_from <= s.starts_at AND r.valid_to >= s.ends_at
),
tariff AS (
    SELECT flavor_key AS flavor, meter, price_class, starts_at, ends_at, price_micro,
           CASE
               WHEN price_micro IS NOT NULL THEN 'billed'
               WHEN meter = 'gpu_held' AND NOT gpu_is_priced THEN 'quarantined'
               WHEN meter IN ('gpu_allocated', 'gpu_stopped', 'gpu_shelved') AND flavor_id IS NULL THEN 'quarantined'
               ELSE 'included'
           END AS status
    FROM priced
)
