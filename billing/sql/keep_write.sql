-- Instead of what was kept before. keep_sums.sql comes before it. Parameters: kept.
, old_days AS (DELETE FROM billing_keptday WHERE kept_id = %(kept)s),
old_holders AS (DELETE FROM billing_keptholder WHERE kept_id = %(kept)s),
new_days AS (
    INSERT INTO billing_keptday (kept_id, starts_at, flavor_id, meter, resource_name, surplus, unit_seconds)
    SELECT %(kept)s, starts_at, flavor, meter, resource, surplus, unit_seconds FROM by_day
)
INSERT INTO billing_keptholder (kept_id, holder, flavor_id, meter, resource_name, surplus, unit_seconds)
SELECT %(kept)s, holder, flavor, meter, resource, surplus, unit_seconds FROM by_holder
