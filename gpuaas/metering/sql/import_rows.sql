-- The rows of a file as intervals. The key of an interval is made of the id in the file, so that it is the same each time;
-- what held nothing is none.
WITH told AS NOT MATERIALIZED (
    SELECT substr(encode(sha256(convert_to(u.id, 'UTF8')), 'hex'), 1, 32)::uuid AS key, u.line, u.id AS name, k.site, k.project_id,
           k.workspace_id, k.flavor_id, u.meter, k.resource, u.quantity::bigint AS quantity, u.started_at, u.ended_at
    FROM import_usage u
    JOIN import_key k USING (project, workspace, flavor, meter, price_class)
    WHERE u.quantity > 0 AND u.ended_at > u.started_at
)
