-- Where no rate has graduated tiers. Before it: counted.sql.
, tiered AS (
    SELECT NULL::date AS month, NULL::date AS slot, project, holder, resource, surplus, stretch, 0 AS price_micro, estimated,
           unit_seconds
    FROM counted
    WHERE false
)
