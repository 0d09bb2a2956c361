-- Workspaces and clusters of a question, the dearest first, a page of them; what nobody held has no id. What `rated_sql` makes by
-- holder, and cards.sql come before it. A cluster that waited in a warm pool has for its first owner the name that it had there.
-- Parameters: wanted (ids; null = all), and so many of the dearest beside them; most, skipped.
, holder AS (
    SELECT project, holder, sum(minor) AS minor,
           coalesce(sum(unit_seconds * coalesce(share, 1)) FILTER (WHERE meter = 'gpu_held'), 0) AS gpu_seconds,
           count(*) FILTER (WHERE status = 'quarantined') AS quarantined,
           row_number() OVER (ORDER BY coalesce(sum(minor), 0) DESC, holder) AS place
    FROM rated
    LEFT JOIN card ON ware = CASE WHEN resource <> '' THEN md5(resource)::uuid ELSE flavor END
    GROUP BY 1, 2
)
SELECT h.project, p.slug, h.holder,
       coalesce(w.name, CASE WHEN c.project_id = h.project THEN c.name WHEN c.id IS NOT NULL THEN 'warm-' || right(c.id::text, 8) END),
       c.id IS NOT NULL, a.currency, coalesce(h.minor, 0)::bigint, h.gpu_seconds::bigint, h.quarantined, count(*) OVER ()
FROM holder h
JOIN payer a ON a.project = h.project
JOIN tenants_project p ON p.id = h.project
LEFT JOIN workspaces_workspace w ON w.id = h.holder
LEFT JOIN clusters_cluster c ON c.id = h.holder
WHERE %(wanted)s::uuid[] IS NULL OR h.holder = ANY (%(wanted)s::uuid[]) OR h.place <= %(dearest)s
ORDER BY coalesce(h.minor, 0) DESC, 4, h.holder
LIMIT %(most)s OFFSET %(skipped)s
