-- What the portal has metered, by the names that people know. The CTEs of tariff.sql, portal_usage.sql, lines.sql and
-- cards.sql come before it. A cluster that waited in a warm pool has for its first owner the name that it had there.
-- Parameter: wanted (workspaces or clusters; null = all).
SELECT d.month, d.slot, d.project, p.slug, d.holder, coalesce(
           w.name,
           CASE WHEN c.project_id = d.project THEN c.name WHEN c.id IS NOT NULL THEN 'warm-' || right(c.id::text, 8) END
       ), c.id IS NOT NULL, f.id, f.slug, f.name, g.slug,
       d.resource, a.currency, d.surplus, d.estimated, d.meter, d.price_class, d.status, d.price_micro,
       d.unit_seconds::bigint, d.minor::bigint, coalesce(k.share, 1)
FROM rated d
JOIN payer a ON a.project = d.project
JOIN tenants_project p ON p.id = d.project
LEFT JOIN workspaces_workspace w ON w.id = d.holder
LEFT JOIN clusters_cluster c ON c.id = d.holder
LEFT JOIN catalog_flavor f ON f.id = d.flavor
LEFT JOIN catalog_gpupool o ON o.id = f.pool_id
LEFT JOIN catalog_gputype g ON g.id = o.gpu_type_id
LEFT JOIN card k ON k.ware = CASE WHEN d.resource <> '' THEN md5(d.resource)::uuid ELSE d.flavor END
WHERE %(wanted)s::uuid[] IS NULL OR d.holder = ANY (%(wanted)s::uuid[])
ORDER BY d.month, p.slug, d.meter, f.slug NULLS LAST, d.resource, d.price_class, d.surplus, d.price_micro NULLS LAST, d.status, d.slot,
         d.holder
