-- The prices as they would be if a draft had always been its card. Parameter: draft.
rate_row AS (
    SELECT r.id, r.card_id, r.flavor_id, r.resource_name, r.meter, r.price_class, r.price_micro, r.increment_seconds, r.minimum_seconds,
           r.tier_mode, r.surplus_percent, r.valid_from, coalesce(r.valid_to, 'infinity'::timestamptz) AS valid_to
    FROM billing_rate r
    WHERE r.card_id <> (SELECT card_id FROM billing_ratedraft WHERE id = %(draft)s)
    UNION ALL
    SELECT l.id, d.card_id, l.flavor_id, l.resource_name, l.meter, l.price_class, l.price_micro, l.increment_seconds, l.minimum_seconds,
           l.tier_mode, l.surplus_percent, '-infinity', 'infinity'
    FROM billing_ratedraft d
    JOIN billing_ratedraftline l ON l.draft_id = d.id
    WHERE d.id = %(draft)s
),
tier_row AS (
    SELECT t.rate_id AS rate, t.from_unit_hours, t.price_micro FROM billing_ratetier t
    UNION ALL
    SELECT l.id, (tier ->> 0)::bigint, (tier ->> 1)::bigint
    FROM billing_ratedraftline l
    CROSS JOIN jsonb_array_elements(l.tiers) AS tier
    WHERE l.draft_id = %(draft)s
),
