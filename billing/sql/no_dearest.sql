-- Where no holders are told apart.
, place AS (
    SELECT NULL::uuid AS holder, NULL::text AS kind
    WHERE false
)
