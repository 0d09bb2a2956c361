-- The tariff as arrays, which the next statement takes as they are (text): of arrays the planner knows the length, and
-- parallel workers can read them; of a CTE neither is true. The CTEs of tariff.sql come before it.
SELECT p.*, t.*, r.*, s.*, x.*, n.*
FROM (
    SELECT array_agg(project)::text AS payer_projects, array_agg(key)::text AS payer_keys,
           array_agg(organization)::text AS payer_organizations, array_agg(currency)::text AS payer_currencies,
           array_agg(divisor)::text AS payer_divisors
    FROM payer
) p
CROSS JOIN (
    SELECT array_agg(id)::text AS t_ids, array_agg(key)::text AS t_keys, array_agg(ware)::text AS t_wares,
           array_agg(flavor)::text AS t_flavors, array_agg(meter)::text AS t_meters, array_agg(price_class)::text AS t_classes,
           array_agg(starts_at)::text AS t_starts, array_agg(ends_at)::text AS t_ends, array_agg(rate)::text AS t_rates,
           array_agg(tier_mode)::text AS t_modes, array_agg(price_micro)::text AS t_prices,
           array_agg(surplus_percent)::text AS t_surplus, array_agg(discount)::text AS t_discounts,
           array_agg(divisor)::text AS t_divisors, array_agg(status)::text AS t_statuses,
           bool_or(tier_mode = 'graduated') IS TRUE AS is_graduated, bool_or(tier_mode <> '') IS TRUE AS is_tiered,
           array_agg(DISTINCT starts_at) FILTER (WHERE starts_at > %(first)s) AS bounds
    FROM tariff
) t
CROSS JOIN (
    SELECT array_agg(rate)::text AS r_rates, array_agg(from_units)::text AS r_froms, array_agg(to_units)::text AS r_tos,
           array_agg(price_micro)::text AS r_prices
    FROM rate_tier
) r
CROSS JOIN (
    SELECT array_agg(key)::text AS s_keys, array_agg(ware)::text AS s_wares, array_agg(meter)::text AS s_meters,
           array_agg(own)::text AS s_owns, array_agg(plain)::text AS s_plains,
            array_agg(valid_from)::text AS s_froms, array_agg(valid_to)::text AS s_tos,
           array_agg(increment_seconds)::text AS s_increments, array_agg(minimum_seconds)::text AS s_minimums,
           coalesce(max(greatest(increment_seconds, minimum_seconds)), 0) AS most_added
    FROM session_rate
) s
CROSS JOIN (
    SELECT EXISTS (
        SELECT 1 FROM quotas_poolreservation b
        JOIN payer p ON p.project = b.project_id
        WHERE b.valid_from < %(last)s AND (b.valid_to IS NULL OR b.valid_to > %(first)s)
    ) AS is_reserved, (SELECT max(month) FROM metering_finalmonth) AS final_month
) x
CROSS JOIN (SELECT array_agg(resource_name)::text AS n_names FROM unsold) n
