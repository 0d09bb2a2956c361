-- The tariff, from the arrays of tariff_read.sql, which are its parameters.
payer AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(payer_projects)s::uuid[], %(payer_keys)s::uuid[], %(payer_organizations)s::uuid[], %(payer_currencies)s::text[],
        %(payer_divisors)s::bigint[]
    ) AS p (project, key, organization, currency, divisor)
),
tariff AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(t_ids)s::bigint[], %(t_keys)s::uuid[], %(t_wares)s::uuid[], %(t_flavors)s::uuid[], %(t_meters)s::text[],
        %(t_classes)s::text[], %(t_starts)s::timestamptz[], %(t_ends)s::timestamptz[], %(t_rates)s::uuid[],
        %(t_modes)s::text[], %(t_prices)s::bigint[], %(t_surplus)s::bigint[], %(t_discounts)s::bigint[],
        %(t_divisors)s::bigint[], %(t_statuses)s::text[]
    ) AS t (
        id, key, ware, flavor, meter, price_class, starts_at, ends_at, rate, tier_mode, price_micro, surplus_percent, discount,
        divisor, status
    )
),
rate_tier AS NOT MATERIALIZED (
    SELECT * FROM unnest(%(r_rates)s::uuid[], %(r_froms)s::numeric[], %(r_tos)s::numeric[], %(r_prices)s::bigint[])
        AS r (rate, from_units, to_units, price_micro)
),
