-- What was invoiced so far for the months and projects that are rated again, negated. Credit and debit notes are not usage:
-- they stay as they are. Parameters: month, organizations (of the batch).
INSERT INTO close_cell
SELECT l.charge_month, s.day, l.project_id, coalesce(s.workspace_id, s.cluster_id), l.flavor_id, l.resource, l.meter,
       l.price_class, l.status, l.unit_price_micro, l.surplus, false, -s.unit_seconds, -s.amount_minor
FROM close_changed c
JOIN tenants_project p ON p.id = c.project AND p.organization_id = ANY (%(organizations)s::uuid[])
JOIN billing_invoiceline l ON l.charge_month = c.month AND l.project_id = c.project
JOIN billing_invoice i ON i.id = l.invoice_id AND i.corrects_id IS NULL
JOIN billing_invoiceshare s ON s.line_id = l.id
WHERE c.month < %(month)s
