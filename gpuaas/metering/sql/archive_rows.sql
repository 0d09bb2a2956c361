-- Intervals that ended in a stretch of time, with the names by which people know what they are of. Parameters: after (null = from
-- the beginning on), until.
SELECT i.id::text, i.site_id::text, s.slug, i.project_id::text, p.slug, i.workspace_id::text, i.cluster_id::text,
       coalesce(w.name, c.name), i.flavor_id::text, f.slug, i.consumer_uid, i.consumer_name, i.node, i.owner, i.meter,
       i.resource_name, i.quantity, i.started_at, i.ended_at, i.last_seen_at, i.ended_by, i.surplus
FROM metering_usageinterval i
JOIN catalog_site s ON s.id = i.site_id
JOIN tenants_project p ON p.id = i.project_id
LEFT JOIN workspaces_workspace w ON w.id = i.workspace_id
LEFT JOIN clusters_cluster c ON c.id = i.cluster_id
LEFT JOIN catalog_flavor f ON f.id = i.flavor_id
WHERE i.ended_at <= %(until)s AND (%(after)s::timestamptz IS NULL OR i.ended_at > %(after)s::timestamptz)
