-- How many rows of what is kept and of what intervals say now are not the same; 0 where it is not kept any more.
-- keep_sums.sql comes before it. Parameters: kept.
, said AS (
    SELECT starts_at::text AS what, flavor, meter, resource, surplus, unit_seconds FROM by_day
    UNION ALL
    SELECT holder::text, flavor, meter, resource, surplus, unit_seconds FROM by_holder
),
kept AS (
    SELECT starts_at::text AS what, flavor_id, meter, resource_name, surplus, unit_seconds FROM billing_keptday WHERE kept_id = %(kept)s
    UNION ALL
    SELECT holder::text, flavor_id, meter, resource_name, surplus, unit_seconds FROM billing_keptholder WHERE kept_id = %(kept)s
)
SELECT count(*) FROM (
    (SELECT * FROM said EXCEPT ALL SELECT * FROM kept) UNION ALL (SELECT * FROM kept EXCEPT ALL SELECT * FROM said)
) d
WHERE EXISTS (SELECT 1 FROM billing_keptmonth WHERE id = %(kept)s AND until = %(until)s)
