-- import_rows.sql comes before it. In the order of keys, so that two imports of the same rows wait for each other and never
-- in a circle. By project: how many were written, from when until when.
, made AS (
    INSERT INTO metering_usageinterval (
        id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, owner, meter, resource_name,
        quantity, started_at, ended_at, last_seen_at, ended_by, surplus
    )
    SELECT key, site, project_id, workspace_id, flavor_id, 'import:' || key, name, '', '', meter, resource, quantity, started_at,
           ended_at, ended_at, 'observed', false
    FROM told
    ORDER BY key, line
    ON CONFLICT DO NOTHING
    RETURNING project_id, started_at, ended_at
)
SELECT project_id, count(*), min(started_at), max(ended_at) FROM made GROUP BY project_id ORDER BY project_id
