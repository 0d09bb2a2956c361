-- Every document is an entry: what is owed against what was earned and the tax. Documents of nothing are none.
-- Parameters: now, by.
WITH entry AS (
    INSERT INTO billing_ledgerentry (id, organization_id, kind, currency, at, by, text, invoice_id, grant_id, posting_count)
    SELECT gen_random_uuid(), organization_id, 'document', currency, %(now)s, %(by)s, number, id, NULL,
           (total_minor <> 0)::int + (subtotal_minor <> 0)::int + (tax_minor <> 0)::int
    FROM billing_invoice
    WHERE id IN (SELECT id FROM close_invoice) AND (subtotal_minor <> 0 OR tax_minor <> 0)
    RETURNING id, invoice_id
)
INSERT INTO billing_ledgerposting (entry_id, account, amount_minor)
SELECT e.id, p.account, p.amount
FROM entry e
JOIN billing_invoice i ON i.id = e.invoice_id
CROSS JOIN LATERAL (VALUES ('receivable', i.total_minor), ('revenue', -i.subtotal_minor), ('tax', -i.tax_minor))
    AS p (account, amount)
WHERE p.amount <> 0
