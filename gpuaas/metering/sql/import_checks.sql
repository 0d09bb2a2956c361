-- Rows that cannot be taken in, by line. Parameters: earliest, now, most, longest, final (null = no month is), final_words.
WITH twice AS MATERIALIZED (
    SELECT id, min(line) AS line FROM import_usage GROUP BY id HAVING count(*) > 1
)
SELECT u.line, k.problem
FROM import_key k
JOIN import_usage u USING (project, workspace, flavor, meter, price_class)
WHERE k.problem <> ''
UNION ALL
SELECT line, 'quantity ' || quantity || ' is more than anybody has: at most ' || %(most)s FROM import_usage WHERE quantity > %(most)s
UNION ALL
SELECT line, 'the id is longer than ' || %(longest)s || ' characters' FROM import_usage WHERE length(id) > %(longest)s
UNION ALL
SELECT line, 'the start is before the year 2000' FROM import_usage WHERE started_at < %(earliest)s
UNION ALL
SELECT line, 'it starts in a month that is final: what was used until ' || %(final_words)s || ' UTC is not taken in any more'
FROM import_usage WHERE started_at < %(final)s::timestamptz
UNION ALL
SELECT line, 'the end is still to come' FROM import_usage WHERE ended_at > %(now)s
UNION ALL
SELECT u.line, 'the id ' || u.id || ' has another meaning in line ' || t.line
FROM twice t
JOIN import_usage f ON f.line = t.line
JOIN import_usage u ON u.id = t.id AND u.line > t.line
WHERE (u.project, u.workspace, u.flavor, u.meter, u.price_class, u.quantity, u.started_at, u.ended_at)
    IS DISTINCT FROM (f.project, f.workspace, f.flavor, f.meter, f.price_class, f.quantity, f.started_at, f.ended_at)
