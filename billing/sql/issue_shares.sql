INSERT INTO billing_invoiceshare (line_id, workspace_id, cluster_id, day, unit_seconds, amount_minor)
SELECT s.line, CASE WHEN c.id IS NULL THEN s.holder END, c.id, s.day, s.unit_seconds, s.minor
FROM close_share s
LEFT JOIN clusters_cluster c ON c.id = s.holder
