-- The tariff: for every payer's key, every flavor (and none, and every resource that has a price without one) and meter,
-- [first, last) cut into stretches with one price,
-- or with none. Because it covers all of that time, joining usage with it loses no second and counts none twice.
-- Sessions keep the rates of all of time: their own began before.
-- A storage class without a price has that of plain storage: by its own key again, and only where the class has none (plain).
-- payer.sql and published.sql (or drafted.sql) come before it. Parameters: meters, first, last.
unsold AS (
    SELECT DISTINCT r.resource_name, md5(r.resource_name)::uuid AS ware FROM rate_row r WHERE r.resource_name <> ''
),
flavor_key AS (
    SELECT f.id, f.id AS flavor_id, f.price_class, f.notice_seconds > 0 AS lent FROM catalog_flavor f
    UNION ALL
    SELECT '00000000-0000-0000-0000-000000000000', NULL, 'on_demand', false
    UNION ALL
    SELECT ware, NULL, 'on_demand', false FROM unsold
),
tariff_key AS (
    SELECT DISTINCT key, card, CASE WHEN key = organization THEN own_card END AS own_card,
           CASE WHEN card IS NULL AND own_card IS NULL THEN 1 ELSE divisor END AS divisor
    FROM account
),
key_rate AS (
    SELECT k.key, c.own, false AS plain, coalesce(r.flavor_id, n.ware, '00000000-0000-0000-0000-000000000000') AS flavor_key, r.*
    FROM tariff_key k
    CROSS JOIN LATERAL (VALUES (k.card, false), (k.own_card, true)) AS c (card, own)
    JOIN rate_row r ON r.card_id = c.card
    LEFT JOIN unsold n ON n.resource_name = r.resource_name
    UNION ALL
    SELECT k.key, c.own, true, n.ware, r.*
    FROM tariff_key k
    CROSS JOIN LATERAL (VALUES (k.card, false), (k.own_card, true)) AS c (card, own)
    JOIN rate_row r ON r.card_id = c.card AND r.meter = 'storage_held' AND r.resource_name = ''
    JOIN unsold n ON starts_with(n.resource_name, 'storage:')
),
key_discount AS (
    SELECT d.organization_id AS key, d.flavor_id, d.basis_points, d.valid_from,
           coalesce(d.valid_to, 'infinity'::timestamptz) AS valid_to
    FROM billing_discount d
),
price_change AS (
    SELECT k.key, f.id AS flavor_key, %(first)s::timestamptz AS at FROM tariff_key k CROSS JOIN flavor_key f
    UNION
    SELECT r.key, r.flavor_key, b.at FROM key_rate r CROSS JOIN LATERAL (VALUES (r.valid_from), (r.valid_to)) AS b (at)
    WHERE b.at > %(first)s AND b.at < %(last)s
    UNION
    SELECT d.key, f.id, b.at
    FROM key_discount d
    JOIN tariff_key k ON k.key = d.key
    JOIN flavor_key f ON d.flavor_id IS NULL OR d.flavor_id = f.flavor_id
    CROSS JOIN LATERAL (VALUES (d.valid_from), (d.valid_to)) AS b (at)
    WHERE b.at > %(first)s AND b.at < %(last)s
),
stretch AS (
    SELECT key, flavor_key, at AS starts_at,
           lead(at, 1, %(last)s::timestamptz) OVER (PARTITION BY key, flavor_key ORDER BY at) AS ends_at
    FROM price_change
),
priced AS (
    SELECT s.key, s.flavor_key, f.flavor_id, f.lent, m.meter, f.price_class, s.starts_at, s.ends_at,
           coalesce(o.id, r.id, op.id, rp.id) AS rate,
           coalesce(o.price_micro, r.price_micro, op.price_micro, rp.price_micro) AS price_micro,
           coalesce(o.tier_mode, r.tier_mode, op.tier_mode, rp.tier_mode, '') AS tier_mode,
           coalesce(o.surplus_percent, r.surplus_percent, op.surplus_percent, rp.surplus_percent, 100) AS surplus_percent,
           coalesce(d.basis_points, e.basis_points, 0) AS discount
    FROM stretch s
    JOIN flavor_key f ON f.id = s.flavor_key
    CROSS JOIN unnest(%(meters)s::text[]) AS m (meter)
    LEFT JOIN key_rate o
        ON o.own AND NOT o.plain AND o.key = s.key AND o.flavor_key = s.flavor_key AND o.meter = m.meter AND o.price_class = f.price_class
        AND o.valid_from <= s.starts_at AND o.valid_to >= s.ends_at
    LEFT JOIN key_rate r
        ON NOT r.own AND NOT r.plain AND r.key = s.key AND r.flavor_key = s.flavor_key AND r.meter = m.meter
        AND r.price_class = f.price_class AND r.valid_from <= s.starts_at AND r.valid_to >= s.ends_at
    LEFT JOIN key_rate op
        ON op.own AND op.plain AND op.key = s.key AND op.flavor_key = s.flavor_key AND op.meter = m.meter
        AND op.valid_from <= s.starts_at AND op.valid_to >= s.ends_at
    LEFT JOIN key_rate rp
        ON NOT rp.own AND rp.plain AND rp.key = s.key AND rp.flavor_key = s.flavor_key AND rp.meter = m.meter
        AND rp.valid_from <= s.starts_at AND rp.valid_to >= s.ends_at
    LEFT JOIN key_discount d
        ON d.key = s.key AND d.flavor_id = f.flavor_id AND d.valid_from <= s.starts_at AND d.valid_to >= s.ends_at
    LEFT JOIN key_discount e
        ON e.key = s.key AND e.flavor_id IS NULL AND e.valid_from <= s.starts_at AND e.valid_to >= s.ends_at
),
tariff AS (
    SELECT row_number() OVER () AS id, p.key, p.flavor_key AS ware,
           coalesce(p.flavor_id, '00000000-0000-0000-0000-000000000000') AS flavor, p.meter, p.price_class,
           p.starts_at, p.ends_at, p.rate, p.tier_mode, p.price_micro, p.surplus_percent, p.discount, k.divisor,
           CASE
               WHEN p.price_micro IS NOT NULL THEN 'billed'
               WHEN p.meter = 'gpu_held' AND NOT bool_or(p.price_micro IS NOT NULL AND p.meter IN ('gpu_held', 'gpu_allocated'))
                   OVER (PARTITION BY p.key, p.flavor_key, p.starts_at) THEN 'quarantined'
               WHEN p.meter IN ('gpu_allocated', 'gpu_stopped', 'gpu_shelved') AND p.flavor_id IS NULL THEN 'quarantined'
               WHEN p.meter = 'gpu_idle' OR p.lent AND p.meter = 'gpu_allocated' THEN 'quarantined'
               ELSE 'included'
           END AS status
    FROM priced p
    JOIN tariff_key k ON k.key = p.key
),
rate_tier AS (
    SELECT rate, from_units, lead(from_units, 1, 'Infinity'::numeric) OVER (PARTITION BY rate ORDER BY from_units) AS to_units,
           price_micro
    FROM (
        SELECT id AS rate, 0::numeric AS from_units, price_micro FROM rate_row WHERE tier_mode <> ''
        UNION ALL
        SELECT rate, from_unit_hours::numeric * 3600, price_micro FROM tier_row
    ) t
),
padded_key AS (
    SELECT DISTINCT key, flavor_key, meter FROM key_rate WHERE increment_seconds > 1 OR minimum_seconds > 0
),
session_rate AS (
    SELECT r.key, r.flavor_key AS ware, r.meter, r.own, r.plain, r.valid_from, r.valid_to, r.increment_seconds, r.minimum_seconds
    FROM key_rate r
    JOIN padded_key p ON p.key = r.key AND p.flavor_key = r.flavor_key AND p.meter = r.meter
    JOIN flavor_key f ON f.id = r.flavor_key AND f.price_class = r.price_class
)
