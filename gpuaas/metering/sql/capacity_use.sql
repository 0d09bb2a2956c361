-- Device-seconds by pool and slot. The CTEs of capacity_levels.sql come before it. Parameters: days, starts, ends.
slot AS (
    SELECT * FROM unnest(%(days)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS s (day, starts_at, ends_at)
)
SELECT t.slug, g.slug, g.name, s.day, sum(l.seconds * l.capacity)::bigint,
       sum(l.seconds * least(l.running, l.capacity))::bigint,
       sum(l.seconds * (least(l.taken, l.capacity) - least(l.running, l.capacity)))::bigint,
       sum(l.seconds * (l.capacity - least(l.taken, l.capacity)))::bigint,
       sum(CASE WHEN l.looked THEN l.seconds * (l.taken - least(l.taken, l.capacity)) ELSE 0 END)::bigint,
       sum(l.seconds * l.unknown)::bigint,
       sum(CASE WHEN l.looked THEN 0 ELSE l.seconds * l.taken END)::bigint,
       sum(l.seconds * l.held)::bigint, sum(l.seconds * l.running)::bigint
FROM (SELECT level.*, extract(EPOCH FROM ends_at - starts_at)::bigint AS seconds FROM level WHERE ends_at IS NOT NULL) l
JOIN slot s ON l.starts_at >= s.starts_at AND l.starts_at < s.ends_at
JOIN catalog_site t ON t.id = l.site
JOIN catalog_gputype g ON g.id = l.gpu_type
GROUP BY 1, 2, 3, 4
HAVING sum(l.capacity + l.unknown + l.taken) > 0
ORDER BY 1, 2, 4
