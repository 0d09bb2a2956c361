-- The fingerprint of documents: SHA-256 over their text, one row of tab-separated fields for the head and one per line, in
-- the order of the lines. What is in it: everything that is charged, to whom and why; not when, nor by whom, nor any id.
-- Parameters: invoices (ids).
SELECT i.id, encode(sha256(convert_to(
    concat_ws(E'\t', i.number, i.kind, o.slug, to_char(i.month, 'YYYY-MM'), i.currency, billing_plain(i.account_name),
        billing_plain(i.account_address), billing_plain(i.account_reference), i.tax_rate_bp, billing_plain(i.tax_label),
        i.subtotal_minor, i.tax_minor, i.total_minor, i.line_count, i.estimated, billing_plain(i.reason),
        coalesce(c.number, '')
    ) || E'\n' || coalesce(l.text, ''), 'UTF8')), 'hex') AS hash
FROM billing_invoice i
JOIN tenants_organization o ON o.id = i.organization_id
LEFT JOIN billing_invoice c ON c.id = i.corrects_id
LEFT JOIN LATERAL (
    SELECT string_agg(concat_ws(E'\t', n.position, to_char(n.charge_month, 'YYYY-MM'), n.project_slug,
               billing_plain(n.project_name), billing_plain(n.cost_center), n.flavor_slug, billing_plain(n.flavor_name),
               n.gpu_type, billing_plain(n.resource), n.meter, n.price_class, n.status,
               coalesce(n.unit_price_micro::text, ''), n.unit_seconds, coalesce(n.amount_minor::text, ''), n.estimated,
               n.surplus, billing_plain(n.text), coalesce(ci.number || '#' || cl.position, ''), n.share_count),
               E'\n' ORDER BY n.position) AS text
    FROM billing_invoiceline n
    LEFT JOIN billing_invoiceline cl ON cl.id = n.corrects_id
    LEFT JOIN billing_invoice ci ON ci.id = cl.invoice_id
    WHERE n.invoice_id = i.id
) l ON true
WHERE i.id = ANY (%(invoices)s::uuid[])
