-- One document per organization with lines, numbered by the organizations' names: an invoice, or, below zero, a credit note.
-- Tax: once on the subtotal, half up. Parameters: month, invoice_series, invoice_number, credit_series, credit_number.
INSERT INTO close_invoice
SELECT gen_random_uuid(), t.organization, n.kind,
       n.series || '-' || lpad(n.number::text, greatest(4, length(n.number::text)), '0'), %(month)s, '', NULL, t.subtotal,
       sign(t.subtotal) * div(2 * abs(t.subtotal) * a.tax_rate_bp + 10000, 20000)
FROM (
    SELECT s.*, row_number() OVER (PARTITION BY s.subtotal < 0 ORDER BY s.slug) - 1 AS place
    FROM (
        SELECT l.organization, coalesce(sum(l.minor), 0)::bigint AS subtotal, min(o.slug) COLLATE "C" AS slug
        FROM close_line l
        JOIN tenants_organization o ON o.id = l.organization
        GROUP BY l.organization
    ) s
) t
JOIN close_account a ON a.organization = t.organization
CROSS JOIN LATERAL (
    SELECT 'invoice' AS kind, %(invoice_series)s AS series, %(invoice_number)s + t.place AS number WHERE t.subtotal >= 0
    UNION ALL
    SELECT 'credit_note', %(credit_series)s, %(credit_number)s + t.place WHERE t.subtotal < 0
) n
