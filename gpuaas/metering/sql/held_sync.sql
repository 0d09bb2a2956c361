-- Holdings that the intervals do not yet show, or whose end they do not yet show. Idempotent, set-based. An interval keeps
-- the resource name that it began with: the site may count the GPUs by another one since. What a project held that others have
-- claimed goes by the name that it had in the warm pool. Parameters: now, since (null = all; else those that are open or have ended
-- since then). What ended in a final month and has no interval is archived.
INSERT INTO metering_usageinterval AS t (
    id, site_id, project_id, workspace_id, cluster_id, flavor_id, consumer_uid, consumer_name, node, meter, resource_name,
    quantity, started_at, ended_at, last_seen_at, ended_by
)
SELECT gen_random_uuid(), h.site_id, h.project_id, h.workspace_id, h.cluster_id, h.flavor_id, h.uid, h.name, '', h.meter,
       coalesce(i.resource_name, o.resource_name, h.storage, h.meter), h.quantity, h.started_at, h.ended_at, coalesce(h.ended_at, %(now)s),
       CASE WHEN h.ended_at IS NULL THEN '' ELSE 'observed' END
FROM (
    SELECT 'holding:' || h.id AS uid, w.site_id, w.project_id, w.id AS workspace_id, NULL::uuid AS cluster_id, w.name,
           h.flavor_id, NULL::text AS storage, h.meter, h.quantity, h.started_at, h.ended_at
    FROM workspaces_holding h
    JOIN workspaces_workspace w ON w.id = h.workspace_id
    UNION ALL
    SELECT 'storage-holding:' || h.id, w.site_id, w.project_id, w.id, NULL, w.name,
           NULL, 'storage:' || s.slug, h.meter, h.quantity, h.started_at, h.ended_at
    FROM workspaces_storageholding h
    JOIN workspaces_workspace w ON w.id = h.workspace_id
    JOIN catalog_storageclass s ON s.id = h.storage_class_id
    UNION ALL
    SELECT 'cluster-holding:' || h.id, coalesce(h.site_id, c.site_id), h.project_id, NULL, c.id,
           CASE WHEN c.project_id = h.project_id THEN c.name ELSE 'warm-' || right(c.id::text, 8) END,
           h.flavor_id, NULL, h.meter, h.quantity, h.started_at, h.ended_at
    FROM clusters_clusterholding h
    JOIN clusters_cluster c ON c.id = h.cluster_id
) h
LEFT JOIN catalog_flavor f ON f.id = h.flavor_id
LEFT JOIN catalog_gpupool o ON o.id = f.pool_id
LEFT JOIN metering_usageinterval i ON i.site_id = h.site_id AND i.consumer_uid = h.uid AND i.meter = h.meter
WHERE h.quantity > 0 AND (%(since)s::timestamptz IS NULL OR h.ended_at IS NULL OR h.ended_at > %(since)s::timestamptz)
  AND (i.id IS NULL OR i.ended_at IS DISTINCT FROM h.ended_at)
  AND (i.id IS NOT NULL OR h.ended_at IS NULL
       OR h.ended_at > coalesce((SELECT max(m.ends_at) FROM metering_finalmonth m), '-infinity'))
ORDER BY h.uid
ON CONFLICT (site_id, consumer_uid, meter, resource_name) DO UPDATE SET
    ended_at = excluded.ended_at, last_seen_at = excluded.last_seen_at, ended_by = excluded.ended_by
WHERE t.ended_at IS NULL
