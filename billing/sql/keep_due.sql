-- Months of projects of which less is kept than is past, the latest first, if anything was used in what is not kept.
-- Parameters: months, starts, untils (how far each is past), zone, most.
SELECT p.id AS project, m.month
FROM tenants_project p
CROSS JOIN unnest(%(months)s::date[], %(starts)s::timestamptz[], %(untils)s::timestamptz[]) AS m (month, starts_at, until)
LEFT JOIN billing_keptmonth k
    ON k.project_id = p.id AND k.month = m.month AND k.zone = %(zone)s AND k.starts_at = m.starts_at
WHERE (k.id IS NULL OR k.until < m.until) AND EXISTS (
    SELECT 1 FROM metering_usageinterval i
    WHERE i.project_id = p.id AND i.started_at < m.until AND (i.ended_at IS NULL OR i.ended_at > coalesce(k.until, m.starts_at))
)
ORDER BY m.month DESC, p.id
LIMIT %(most)s
