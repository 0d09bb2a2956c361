-- What is wrong with rows that can be read, by file and line: an id with two meanings, rates of one key that overlap or
-- leave a gap, and seconds of the month that are used and have no rate. Keys of which a row of rates.csv could not be read
-- are not asked for the last: that row may have been the rate.
-- Parameters: starts_at, ends_at; doubt_all, or flavors, meters, classes: the keys in doubt.
WITH meaning AS (
    SELECT line, id, first_value(line) OVER same AS first_line,
           (project, workspace, flavor, meter, price_class, quantity, started_at, ended_at)
               IS DISTINCT FROM first_value((project, workspace, flavor, meter, price_class, quantity, started_at, ended_at))
               OVER same AS differs
    FROM file_usage
    WINDOW same AS (PARTITION BY id ORDER BY line)
),
ordered AS (
    SELECT line, valid_from, to_char(valid_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS said,
           max(coalesce(valid_to, 'infinity'::timestamptz)) OVER before AS known_to
    FROM file_rate
    WINDOW before AS (
        PARTITION BY flavor, meter, price_class ORDER BY valid_from, line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
priced AS (
    SELECT flavor, meter, price_class, lower(range) AS starts_at, coalesce(upper(range), 'infinity'::timestamptz) AS ends_at
    FROM (
        SELECT flavor, meter, price_class, unnest(range_agg(tstzrange(valid_from, valid_to))) AS range
        FROM file_rate
        GROUP BY 1, 2, 3
    ) r
),
asked AS (
    SELECT line, flavor, meter, price_class, greatest(started_at, %(starts_at)s) AS starts_at,
           least(ended_at, %(ends_at)s) AS ends_at
    FROM file_usage
    WHERE started_at < %(ends_at)s AND ended_at > %(starts_at)s AND ended_at > started_at AND quantity > 0
      AND NOT %(doubt_all)s AND NOT ((flavor, meter, price_class) IN (
          SELECT * FROM unnest(%(flavors)s::text[], %(meters)s::text[], %(classes)s::text[])
      ))
),
covered AS (
    SELECT a.line, a.flavor, a.meter, a.price_class, a.ends_at - a.starts_at AS wanted,
           coalesce(sum(least(a.ends_at, p.ends_at) - greatest(a.starts_at, p.starts_at))
                        FILTER (WHERE p.flavor IS NOT NULL), interval '0') AS found
    FROM asked a
    LEFT JOIN priced p
        ON p.flavor = a.flavor AND p.meter = a.meter AND p.price_class = a.price_class
        AND p.starts_at < a.ends_at AND p.ends_at > a.starts_at
    GROUP BY a.line, a.flavor, a.meter, a.price_class, a.starts_at, a.ends_at
)
SELECT 'usage' AS file, line, 'the id ' || id || ' has another meaning in line ' || first_line AS problem
FROM meaning WHERE differs
UNION ALL
SELECT 'rates', line, 'from ' || said || ' overlaps the rate before it, whose to is '
       || CASE WHEN isfinite(known_to) THEN to_char(known_to AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') ELSE 'empty' END
FROM ordered WHERE valid_from < known_to
UNION ALL
SELECT 'rates', line, 'from ' || said || ' leaves a gap after the rate before it, whose to is '
       || to_char(known_to AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
FROM ordered WHERE valid_from > known_to
UNION ALL
SELECT 'usage', line, 'no rate for ' || flavor || ', ' || meter || ', ' || price_class || ' for '
       || extract(EPOCH FROM wanted - found)::bigint || ' s of its time'
FROM covered WHERE found < wanted
