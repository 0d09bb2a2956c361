-- What a month that is not closed has cost so far, in the columns of focus_documents.sql. What `rated_sql` makes comes
-- before it, with days as slots and by holder.
SELECT 'running', NULL, d.month, o.slug, o.name, a.currency, d.month, d.slot, p.slug, p.name, coalesce(k.code, ''),
       d.holder, coalesce(
           w.name,
           CASE WHEN v.project_id = d.project THEN v.name WHEN v.id IS NOT NULL THEN 'warm-' || right(v.id::text, 8) END
       ), v.id IS NOT NULL, t.slug, t.name, coalesce(f.slug, ''), coalesce(f.name, ''),
       coalesce(g.slug, ''), d.resource, d.meter, d.price_class, d.status, d.surplus, coalesce(d.estimated, false), d.price_micro::bigint,
       d.unit_seconds::bigint, coalesce(d.minor, 0)::bigint, NULL::uuid, NULL, '', NULL::timestamptz
FROM rated d
JOIN payer a ON a.project = d.project
JOIN tenants_project p ON p.id = d.project
JOIN tenants_organization o ON o.id = p.organization_id
LEFT JOIN billing_projectcostcenter k ON k.project_id = p.id
LEFT JOIN workspaces_workspace w ON w.id = d.holder
LEFT JOIN clusters_cluster v ON v.id = d.holder
LEFT JOIN catalog_flavor f ON f.id = d.flavor
LEFT JOIN catalog_gpupool u ON u.id = f.pool_id
LEFT JOIN catalog_site t ON t.id = coalesce(w.site_id, v.site_id, u.site_id)
LEFT JOIN catalog_gputype g ON g.id = u.gpu_type_id
WHERE d.status <> 'quarantined'
