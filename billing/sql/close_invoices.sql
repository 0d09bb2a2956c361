-- One invoice per organization with lines, numbered by the organizations' names. Tax: once on the subtotal, half up.
-- Parameters: month, series, next_number.
INSERT INTO close_invoice
SELECT gen_random_uuid(), t.organization, 'invoice',
       %(series)s || '-' || lpad(t.place::text, greatest(4, length(t.place::text)), '0'), %(month)s, '', NULL, t.subtotal,
       sign(t.subtotal) * div(2 * abs(t.subtotal) * a.tax_rate_bp + 10000, 20000)
FROM (
    SELECT l.organization, coalesce(sum(l.minor), 0)::bigint AS subtotal,
           %(next_number)s + row_number() OVER (ORDER BY min(o.slug) COLLATE "C") - 1 AS place
    FROM close_line l
    JOIN tenants_organization o ON o.id = l.organization
    GROUP BY l.organization
) t
JOIN close_account a ON a.organization = t.organization
