-- Lines from cells. Of an earlier month only what differs from the invoices so far is left; no difference is no line.
-- What it corrects is the first line of its kind, which also a later invoice than its month's may have.
-- Parameters: month.
WITH line AS (
    SELECT charge_month, project, flavor, resource, meter, price_class, status, price_micro, surplus,
           bool_or(estimated) AS estimated, sum(unit_seconds)::bigint AS unit_seconds, sum(minor)::bigint AS minor
    FROM close_cell
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
    HAVING sum(unit_seconds) <> 0 OR coalesce(sum(minor), 0) <> 0
),
placed AS (
    SELECT l.*, p.organization_id AS organization, coalesce(k.code, '') AS cost_center,
           row_number() OVER (
               PARTITION BY p.organization_id
               ORDER BY coalesce(k.code, '') COLLATE "C", p.slug COLLATE "C", l.charge_month DESC,
                        l.meter NOT LIKE 'gpu%%', f.slug COLLATE "C" NULLS LAST, l.meter COLLATE "C",
                        l.resource COLLATE "C", l.price_class COLLATE "C", l.price_micro NULLS LAST,
                        l.status COLLATE "C", l.surplus
           ) AS position
    FROM line l
    JOIN tenants_project p ON p.id = l.project
    LEFT JOIN billing_projectcostcenter k ON k.project_id = p.id
    LEFT JOIN catalog_flavor f ON f.id = l.flavor
)
INSERT INTO close_line
SELECT gen_random_uuid(), organization, position, charge_month, project, cost_center, flavor, resource, meter, price_class,
       status, price_micro, surplus, estimated, unit_seconds, minor, 0, '', corrected.id
FROM placed d
LEFT JOIN LATERAL (
    SELECT l.id FROM billing_invoiceline l
    JOIN billing_invoice i ON i.id = l.invoice_id AND i.corrects_id IS NULL
    WHERE d.charge_month < %(month)s AND l.charge_month = d.charge_month AND l.project_id = d.project
      AND l.flavor_id IS NOT DISTINCT FROM d.flavor AND l.resource = d.resource AND l.meter = d.meter
      AND l.price_class = d.price_class AND l.status = d.status AND l.surplus = d.surplus
      AND l.unit_price_micro IS NOT DISTINCT FROM d.price_micro
    ORDER BY i.month, l.corrects_id NULLS FIRST
    LIMIT 1
) corrected ON true
