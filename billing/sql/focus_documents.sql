-- What closed documents charge, at their finest: line × workspace or cluster × day; a line without shares is one row of its whole
-- month, and the tax of a document is one row. A month's document belongs to its month, a note to the month it was written
-- in. What a month charges is usage, also where it is below zero and so a credit note.
-- Quarantined usage is not charged, so it is no row. Parameters: month, closed (whether it is), starts_at, ends_at, organization.
WITH document AS (
    SELECT i.*, CASE WHEN i.corrects_id IS NULL THEN 'invoice' ELSE i.kind END AS charges FROM billing_invoice i
    WHERE (i.corrects_id IS NULL AND i.month = %(month)s AND %(closed)s
           OR i.corrects_id IS NOT NULL AND i.closed_at >= %(starts_at)s AND i.closed_at < %(ends_at)s)
      AND (%(organization)s::uuid IS NULL OR i.organization_id = %(organization)s::uuid)
)
SELECT i.charges, i.number, i.month, o.slug, i.account_name, i.currency, l.charge_month, s.day, l.project_slug, l.project_name,
       l.cost_center, coalesce(w.id, v.id), coalesce(
           w.name,
           CASE WHEN v.project_id = l.project_id THEN v.name WHEN v.id IS NOT NULL THEN 'warm-' || right(v.id::text, 8) END
       ), v.id IS NOT NULL, t.slug, t.name, l.flavor_slug,
       l.flavor_name, l.gpu_type, l.resource, l.meter, l.price_class, l.status, l.surplus, l.estimated,
       l.unit_price_micro, coalesce(s.unit_seconds, l.unit_seconds),
       coalesce(CASE WHEN s.id IS NULL THEN l.amount_minor ELSE s.amount_minor END, 0), l.id, c.number, l.text, i.closed_at
FROM document i
JOIN tenants_organization o ON o.id = i.organization_id
JOIN billing_invoiceline l ON l.invoice_id = i.id AND l.status <> 'quarantined'
LEFT JOIN billing_invoiceshare s ON s.line_id = l.id
LEFT JOIN workspaces_workspace w ON w.id = s.workspace_id
LEFT JOIN clusters_cluster v ON v.id = s.cluster_id
LEFT JOIN catalog_flavor f ON f.id = l.flavor_id
LEFT JOIN catalog_gpupool u ON u.id = f.pool_id
LEFT JOIN catalog_site t ON t.id = coalesce(w.site_id, v.site_id, u.site_id)
LEFT JOIN billing_invoiceline k ON k.id = l.corrects_id
LEFT JOIN billing_invoice c ON c.id = k.invoice_id
UNION ALL
SELECT 'tax', i.number, i.month, o.slug, i.account_name, i.currency, i.month, NULL, NULL, NULL, '', NULL, NULL, false, NULL, NULL,
       '', '', '', '', '', '', 'billed', false, false, NULL, 0, i.tax_minor, NULL, c.number, i.tax_label, i.closed_at
FROM document i
JOIN tenants_organization o ON o.id = i.organization_id
LEFT JOIN billing_invoice c ON c.id = i.corrects_id
WHERE i.tax_minor <> 0
ORDER BY 2, 21 DESC, 9, 8, 12, 29
