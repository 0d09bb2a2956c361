-- Device-seconds by pool and slot. The CTEs of capacity_levels.sql come before it. Parameters: days, starts, ends.
slot AS (
    SELECT * FROM unnest(%(days)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS s (day, starts_at, ends_at)
),
summed AS (
    SELECT l.site, l.gpu_type, s.day, sum(l.seconds * l.capacity)::bigint AS capacity,
           sum(l.seconds * least(l.running, l.capacity))::bigint AS in_use,
           sum(l.seconds * (least(l.taken, l.capacity) - least(l.running, l.capacity)))::bigint AS unused,
           sum(l.seconds * (l.capacity - least(l.taken, l.capacity)))::bigint AS idle,
           sum(CASE WHEN l.looked THEN l.seconds * (l.taken - least(l.taken, l.capacity)) ELSE 0 END)::bigint AS over,
           sum(l.seconds * l.unknown)::bigint AS unknown,
           sum(CASE WHEN l.looked THEN 0 ELSE l.seconds * l.taken END)::bigint AS unlooked,
           sum(l.seconds * l.held)::bigint AS held, sum(l.seconds * l.running)::bigint AS running
    FROM (SELECT level.*, extract(EPOCH FROM ends_at - starts_at)::bigint AS seconds FROM level WHERE ends_at IS NOT NULL) l
    JOIN slot s ON l.starts_at >= s.starts_at AND l.starts_at < s.ends_at
    GROUP BY 1, 2, 3
    HAVING sum(l.capacity + l.unknown + l.taken) > 0
)
SELECT t.slug, g.slug, g.name, s.day, p.card_share, s.capacity, s.in_use, s.unused, s.idle, s.over, s.unknown, s.unlooked, s.held, s.running
FROM summed s
JOIN catalog_site t ON t.id = s.site
JOIN catalog_gputype g ON g.id = s.gpu_type
JOIN catalog_gpupool p ON p.site_id = s.site AND p.gpu_type_id = s.gpu_type
ORDER BY 1, 2, 4
