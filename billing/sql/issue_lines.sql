INSERT INTO billing_invoiceline (id, invoice_id, position, charge_month, project_id, project_slug, project_name, cost_center,
    flavor_id, flavor_slug, flavor_name, gpu_type, resource, meter, price_class, status, unit_price_micro, unit_seconds,
    amount_minor, estimated, surplus, text, corrects_id, share_count)
SELECT l.id, i.id, l.position, l.charge_month, p.id, p.slug, p.name, l.cost_center, f.id, coalesce(f.slug, ''),
       coalesce(f.name, ''), coalesce(g.slug, ''), l.resource, l.meter, l.price_class, l.status, l.price_micro,
       l.unit_seconds, l.minor, l.estimated, l.surplus, l.text, l.corrects, l.share_count
FROM close_line l
JOIN close_invoice i ON i.organization = l.organization
JOIN tenants_project p ON p.id = l.project
LEFT JOIN catalog_flavor f ON f.id = l.flavor
LEFT JOIN catalog_gpupool o ON o.id = f.pool_id
LEFT JOIN catalog_gputype g ON g.id = o.gpu_type_id
