-- The rows of a file as intervals, each id once, without those that are refused by themselves. The key of an interval is made of
-- the id in the file, so that it is the same each time; what held nothing is none. known: it was taken in before.
-- Parameters: most, longest.
CREATE TEMPORARY TABLE import_told ON COMMIT DROP AS
SELECT DISTINCT ON (t.key) t.*, i.id IS NOT NULL AS known
FROM (
    SELECT substr(encode(sha256(convert_to(u.id, 'UTF8')), 'hex'), 1, 32)::uuid AS key, u.line, u.id AS name, k.site,
           k.project_id, k.workspace_id, k.flavor_id, k.gpus, u.meter, k.resource, u.quantity::bigint AS quantity, u.started_at,
           u.ended_at
    FROM import_usage u
    JOIN import_key k USING (project, workspace, flavor, meter, price_class)
    WHERE k.problem = '' AND u.quantity > 0 AND u.quantity <= %(most)s AND u.ended_at > u.started_at AND length(u.id) <= %(longest)s
) t
LEFT JOIN metering_usageinterval i ON i.id = t.key
ORDER BY t.key, t.line;
ANALYZE import_told;
