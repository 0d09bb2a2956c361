-- The row of a project's month, or of a day of it: kept until then. Parameters: project, month, zone, starts_at, until.
INSERT INTO billing_keptmonth (project_id, month, zone, starts_at, until)
VALUES (%(project)s, %(month)s, %(zone)s, %(starts_at)s, %(until)s)
ON CONFLICT (project_id, month) DO UPDATE SET zone = excluded.zone, starts_at = excluded.starts_at, until = excluded.until
RETURNING id
