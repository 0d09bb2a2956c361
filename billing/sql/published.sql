-- The prices that count.
rate_row AS (
    SELECT r.id, r.card_id, r.flavor_id, r.resource_name, r.meter, r.price_class, r.price_micro, r.increment_seconds, r.minimum_seconds,
           r.tier_mode, r.surplus_percent, r.valid_from, coalesce(r.valid_to, 'infinity'::timestamptz) AS valid_to
    FROM billing_rate r
),
tier_row AS (
    SELECT t.rate_id AS rate, t.from_unit_hours, t.price_micro FROM billing_ratetier t
),
