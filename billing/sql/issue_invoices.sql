-- Documents from the tables of a close; a note is issued by the same statements. Parameters: now, by, due_on.
INSERT INTO billing_invoice (id, organization_id, kind, number, month, currency, account_name, account_address,
    account_reference, tax_rate_bp, tax_label, subtotal_minor, tax_minor, total_minor, line_count, estimated, reason,
    corrects_id, due_on, closed_at, closed_by, content_hash)
SELECT i.id, i.organization, i.kind, i.number, i.month, a.currency, a.name, a.address, a.reference, a.tax_rate_bp,
       a.tax_label, i.subtotal, i.tax, i.subtotal + i.tax, l.lines, l.estimated, i.reason, i.corrects, %(due_on)s, %(now)s,
       %(by)s, ''
FROM close_invoice i
JOIN close_account a ON a.organization = i.organization
JOIN (SELECT organization, count(*) AS lines, bool_or(estimated) AS estimated FROM close_line GROUP BY 1) l
    ON l.organization = i.organization
