-- Workspaces and clusters of a question, the dearest first, a page of them; what nobody held has no id. Beside each what all of them
-- are: their number, minor units and GPU-seconds, and the most that one of them cost. What `rated_sql` makes by
-- holder, and cards.sql come before it. A cluster that waited in a warm pool has for its first owner the name that it had there.
-- Names are looked up for the rows up to the page's end, and what costs as much as its last: they order what costs the same.
-- Parameters: wanted (ids; null = all), and so many of the dearest beside them; most, skipped.
, summed AS (
    SELECT project, holder, coalesce(sum(minor), 0) AS minor,
           coalesce(sum(unit_seconds * coalesce(share, 1)) FILTER (WHERE meter = 'gpu_held'), 0)::bigint AS gpu_seconds,
           count(*) FILTER (WHERE status = 'quarantined') AS quarantined
    FROM rated
    LEFT JOIN card ON ware = CASE WHEN meter <> 'gpu_held' THEN NULL WHEN resource <> '' THEN md5(resource)::uuid ELSE flavor END
    GROUP BY 1, 2
),
holder AS (
    SELECT s.*, row_number() OVER (ORDER BY minor DESC, holder) AS place, rank() OVER (ORDER BY minor DESC) AS rank,
           count(*) OVER () AS holders, sum(minor) OVER () AS all_minor, sum(gpu_seconds) OVER () AS all_seconds,
           max(minor) OVER () AS most_minor
    FROM summed s
)
SELECT h.project, p.slug, h.holder,
       coalesce(w.name, CASE WHEN c.project_id = h.project THEN c.name WHEN c.id IS NOT NULL THEN 'warm-' || right(c.id::text, 8) END),
       c.id IS NOT NULL, a.currency, h.minor::bigint, h.gpu_seconds, h.quarantined, h.holders, h.all_minor::bigint, h.all_seconds::bigint,
       h.most_minor::bigint
FROM holder h
JOIN payer a ON a.project = h.project
JOIN tenants_project p ON p.id = h.project
LEFT JOIN workspaces_workspace w ON w.id = h.holder
LEFT JOIN clusters_cluster c ON c.id = h.holder
WHERE (%(wanted)s::uuid[] IS NULL OR h.holder = ANY (%(wanted)s::uuid[]) OR h.place <= %(dearest)s)
  AND (%(most)s::bigint IS NULL OR h.rank <= %(most)s::bigint + %(skipped)s::bigint)
ORDER BY h.minor DESC, 4, h.holder
LIMIT %(most)s OFFSET %(skipped)s
