INSERT INTO billing_invoiceshare (line_id, workspace_id, day, unit_seconds, amount_minor)
SELECT line, workspace, day, unit_seconds, minor FROM close_share
