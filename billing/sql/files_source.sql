-- The rows of two files in temporary tables, as lines.sql wants them. A row that comes twice counts once; all that is wrong
-- was found before (files_checks.sql), so that rates cover the usage without overlap.
-- Parameters: month, starts_at, ends_at, divisor.
slot AS NOT MATERIALIZED (
    SELECT %(month)s::date AS month, %(month)s::date AS slot, %(starts_at)s::timestamptz AS starts_at,
           %(ends_at)s::timestamptz AS ends_at, %(starts_at)s::timestamptz AS month_starts_at
),
usage AS NOT MATERIALIZED (
    SELECT DISTINCT ON (id) id, project, workspace AS holder, '' AS key, ARRAY[flavor, price_class] AS ware, '' AS resource, meter,
           quantity, started_at, ended_at, false AS surplus, false AS estimated
    FROM file_usage
    WHERE started_at < %(ends_at)s AND ended_at > %(starts_at)s AND ended_at > started_at AND quantity > 0
    ORDER BY id
),
tariff AS MATERIALIZED (
    SELECT row_number() OVER () AS id, '' AS key, ARRAY[flavor, price_class] AS ware, flavor, meter, price_class,
           valid_from AS starts_at, coalesce(valid_to, 'infinity'::timestamptz) AS ends_at, 0 AS rate, '' AS tier_mode,
           price_micro, 100 AS surplus_percent, 0 AS discount, %(divisor)s::bigint AS divisor, 'billed' AS status
    FROM file_rate
),
rate_tier AS (
    SELECT 0 AS rate, 0::numeric AS from_units, 0::numeric AS to_units, 0::numeric AS price_micro WHERE false
)
