-- Numbers of invoices of months that were closed after a batch of usage came, with lines of its holders, meters and months.
-- Parameters: batch, closed (months that were closed when it came), zone, most.
WITH place AS MATERIALIZED (
    SELECT project_id, workspace_id, meter, date_trunc('month', min(started_at) AT TIME ZONE %(zone)s)::date AS first,
           date_trunc('month', max(ended_at) AT TIME ZONE %(zone)s)::date AS last
    FROM metering_usageinterval
    WHERE batch_id = %(batch)s
    GROUP BY project_id, workspace_id, meter
)
SELECT DISTINCT i.number
FROM place p
JOIN billing_invoiceline l ON l.project_id = p.project_id AND l.meter = p.meter AND l.charge_month BETWEEN p.first AND p.last
JOIN billing_invoice i ON i.id = l.invoice_id AND i.corrects_id IS NULL
WHERE i.month <> ALL (%(closed)s::date[])
  AND EXISTS (SELECT 1 FROM billing_invoiceshare s WHERE s.line_id = l.id AND s.workspace_id = p.workspace_id)
ORDER BY i.number
LIMIT %(most)s
