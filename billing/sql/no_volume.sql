-- Where no rate has tiers. It does not read what was counted: what is read once need not be stored.
, volume AS (SELECT NULL::date AS month, NULL::uuid AS project, NULL::uuid AS rate, NULL::bigint AS price_micro WHERE false)
