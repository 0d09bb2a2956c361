-- The rows of two files in temporary tables, as lines.sql wants them. A row that comes twice counts once; all that is wrong
-- was found before (files_checks.sql), so that rates cover the usage without overlap.
-- Parameters: month, starts_at, ends_at.
slot AS (
    SELECT %(month)s::date AS month, %(month)s::date AS slot, %(starts_at)s::timestamptz AS starts_at,
           %(ends_at)s::timestamptz AS ends_at
),
usage AS (
    SELECT DISTINCT ON (id) project, workspace, flavor, '' AS resource, meter, price_class, quantity, started_at, ended_at
    FROM file_usage
    WHERE started_at < %(ends_at)s AND ended_at > %(starts_at)s AND ended_at > started_at AND quantity > 0
    ORDER BY id
),
tariff AS (
    SELECT flavor, meter, price_class, valid_from AS starts_at, coalesce(valid_to, 'infinity'::timestamptz) AS ends_at,
           price_micro, 'billed' AS status
    FROM file_rate
)
