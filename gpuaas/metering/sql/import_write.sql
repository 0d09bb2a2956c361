-- New rows, in the order of keys; the last release may import the same at the same time. By project: how many were written, from
-- when until when. Parameters: batch.
WITH made AS (
    INSERT INTO metering_usageinterval (
        id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, owner, meter, resource_name,
        quantity, started_at, ended_at, last_seen_at, ended_by, surplus, batch_id
    )
    SELECT key, site, project_id, workspace_id, flavor_id, 'import:' || key, name, '', '', meter, resource, quantity, started_at,
           ended_at, ended_at, 'observed', false, %(batch)s
    FROM import_told
    WHERE NOT known
    ORDER BY key
    ON CONFLICT DO NOTHING
    RETURNING project_id, started_at, ended_at
)
SELECT project_id, count(*), min(started_at), max(ended_at) FROM made GROUP BY project_id ORDER BY project_id
