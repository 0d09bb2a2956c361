-- What is wrong with rows that can be read, by file and line: an id with two meanings, rates of one key that overlap or
-- leave a gap, and seconds of the month that are used and have no rate. Keys of which a row of rates.csv could not be read
-- are not asked for the last: that row may have been the rate.
-- Parameters: starts_at, ends_at, doubtful.
WITH meaning AS (
    SELECT line, id, first_value(line) OVER same AS first_line,
           (project, workspace, flavor, meter, price_class, quantity, started_at, ended_at)
               IS DISTINCT FROM first_value((project, workspace, flavor, meter, price_class, quantity, started_at, ended_at))
               OVER same AS differs
    FROM file_usage
    WINDOW same AS (PARTITION BY id ORDER BY line)
),
ordered AS (
    SELECT line, valid_from, max(coalesce(valid_to, 'infinity'::timestamptz)) OVER before AS known_to
    FROM file_rate
    WINDOW before AS (
        PARTITION BY flavor, meter, price_class ORDER BY valid_from, line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
asked AS (
    SELECT line, flavor, meter, price_class, greatest(started_at, %(starts_at)s) AS starts_at,
           least(ended_at, %(ends_at)s) AS ends_at
    FROM file_usage
    WHERE started_at < %(ends_at)s AND ended_at > %(starts_at)s AND ended_at > started_at AND quantity > 0
      AND NOT ((flavor, meter, price_class) IN (
          SELECT * FROM unnest(%(flavors)s::text[], %(meters)s::text[], %(classes)s::text[])
      ))
),
covered AS (
    SELECT a.line, a.flavor, a.meter, a.price_class, a.ends_at - a.starts_at AS wanted,
           coalesce(sum(least(a.ends_at, coalesce(r.valid_to, 'infinity'::timestamptz)) - greatest(a.starts_at, r.valid_from))
                        FILTER (WHERE r.line IS NOT NULL), interval '0') AS found
    FROM asked a
    LEFT JOIN file_rate r
        ON r.flavor = a.flavor AND r.meter = a.meter AND r.price_class = a.price_class
        AND r.valid_from < a.ends_at AND coalesce(r.valid_to, 'infinity'::timestamptz) > a.starts_at
    GROUP BY a.line, a.flavor, a.meter, a.price_class, a.starts_at, a.ends_at
)
SELECT 'usage' AS file, line, 'the id ' || id || ' has another meaning in line ' || first_line AS problem
FROM meaning WHERE differs
UNION ALL
SELECT 'rates', line, 'the rate overlaps the one before it' FROM ordered WHERE valid_from < known_to
UNION ALL
SELECT 'rates', line, 'there is a gap between this rate and the one before it' FROM ordered WHERE valid_from > known_to
UNION ALL
SELECT 'usage', line, 'no rate for ' || flavor || ', ' || meter || ', ' || price_class || ' for '
       || extract(EPOCH FROM wanted - found)::bigint || ' s of its time'
FROM covered WHERE found < wanted
