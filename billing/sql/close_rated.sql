INSERT INTO billing_ratedusage (month, project_id, fingerprint)
SELECT month, project, fingerprint FROM close_changed
ON CONFLICT (month, project_id) DO UPDATE SET fingerprint = excluded.fingerprint
