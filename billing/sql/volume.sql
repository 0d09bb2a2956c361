-- Tiers by volume: the price that the usage of a whole month has reached. Before it: counted.sql.
, volume AS MATERIALIZED (
    SELECT v.month, v.project, v.rate, r.price_micro
    FROM (
        SELECT month, project, rate, sum(unit_seconds) AS units
        FROM counted
        WHERE tier_mode = 'volume'
        GROUP BY 1, 2, 3
    ) v
    JOIN rate_tier r ON r.rate = v.rate AND r.from_units <= v.units AND r.to_units > v.units
)
