-- Where no rate has graduated tiers. It does not read what was counted: what is read once need not be stored.
, tiered AS (
    SELECT NULL::date AS month, NULL::date AS slot, NULL::uuid AS project, NULL::uuid AS holder, NULL::text AS resource,
           NULL::boolean AS surplus, NULL::bigint AS kind, NULL::bigint AS divisor, NULL::bigint AS price_micro, NULL::bigint AS factor,
           NULL::boolean AS estimated, NULL::bigint AS unit_seconds
    WHERE false
)
