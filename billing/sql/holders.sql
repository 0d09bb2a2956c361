-- Workspaces and clusters of a question in the order that is asked for, a page of them; what nobody held has no id. Beside each what all
-- of them are: their number, minor units and GPU-seconds, and the most that one of them cost. What `rated_sql` makes by
-- holder, and cards.sql come before it. A cluster that waited in a warm pool has for its first owner the name that it had there.
-- Names are looked up for the rows up to the page's end, and what is equal to its last: they order what is equal. By name, for all.
-- Parameters: wanted (ids; null = all), and so many of the dearest beside them; most, skipped; sort: amount, hours or name, with a
-- minus in front the largest first.
, held_cost AS (
    SELECT project, holder, coalesce(sum(minor), 0) AS minor,
           coalesce(sum(unit_seconds * coalesce(share, 1)) FILTER (WHERE meter = 'gpu_held'), 0)::bigint AS gpu_seconds,
           count(*) FILTER (WHERE status = 'quarantined') AS quarantined
    FROM rated
    LEFT JOIN card ON ware = CASE WHEN meter <> 'gpu_held' THEN NULL WHEN resource <> '' THEN md5(resource)::uuid ELSE flavor END
    GROUP BY 1, 2
),
keyed AS (
    SELECT s.*, CASE %(sort)s WHEN 'amount' THEN minor WHEN '-amount' THEN -minor
                              WHEN 'hours' THEN gpu_seconds WHEN '-hours' THEN -gpu_seconds ELSE 0 END AS sorts
    FROM held_cost s
),
holder AS (
    SELECT s.*, row_number() OVER (ORDER BY minor DESC, holder) AS place, rank() OVER (ORDER BY sorts) AS rank,
           count(*) OVER () AS holders, sum(minor) OVER () AS all_minor, sum(gpu_seconds) OVER () AS all_seconds,
           max(minor) OVER () AS most_minor
    FROM keyed s
)
SELECT h.project, p.slug, h.holder, n.name, c.id IS NOT NULL, a.currency, h.minor::bigint, h.gpu_seconds, h.quarantined,
       h.holders, h.all_minor::bigint, h.all_seconds::bigint, h.most_minor::bigint
FROM holder h
JOIN payer a ON a.project = h.project
JOIN tenants_project p ON p.id = h.project
LEFT JOIN workspaces_workspace w ON w.id = h.holder
LEFT JOIN clusters_cluster c ON c.id = h.holder
CROSS JOIN LATERAL (
    SELECT coalesce(w.name, CASE WHEN c.project_id = h.project THEN c.name WHEN c.id IS NOT NULL THEN 'warm-' || right(c.id::text, 8) END)
           AS name
) n
WHERE (%(wanted)s::uuid[] IS NULL OR h.holder = ANY (%(wanted)s::uuid[]) OR h.place <= %(dearest)s)
  AND (%(most)s::bigint IS NULL OR h.rank <= %(most)s::bigint + %(skipped)s::bigint)
ORDER BY h.sorts, CASE WHEN %(sort)s = '-name' THEN n.name END DESC, n.name, h.holder
LIMIT %(most)s OFFSET %(skipped)s
