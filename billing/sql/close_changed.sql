-- Of months that are closed: the projects whose fingerprint is not the one they were last rated by, with all other projects
-- of their organization (tiers may span projects), and those that pay for the idle GPUs of a pool. Of the month that is closed now: all.
-- Parameters: month, months, starts, ends.
WITH reserved AS (
    SELECT s.month, r.project_id AS project
    FROM unnest(%(months)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS s (month, starts_at, ends_at)
    JOIN quotas_poolreservation r ON r.valid_from < s.ends_at AND (r.valid_to IS NULL OR r.valid_to > s.starts_at)
),
differs AS (
    SELECT coalesce(c.month, r.month) AS month, coalesce(c.project, r.project_id) AS project
    FROM close_print c
    FULL JOIN (SELECT * FROM billing_ratedusage WHERE month = ANY (%(months)s::date[])) r
        ON r.month = c.month AND r.project_id = c.project
    WHERE c.fingerprint IS DISTINCT FROM r.fingerprint AND coalesce(c.month, r.month) < %(month)s
    UNION
    SELECT month, project FROM reserved WHERE month < %(month)s
)
INSERT INTO close_changed
SELECT DISTINCT d.month, other.id, coalesce(c.fingerprint, ''), coalesce(c.intervals, 0)
FROM differs d
JOIN tenants_project p ON p.id = d.project
JOIN tenants_project other ON other.organization_id = p.organization_id
LEFT JOIN close_print c ON c.month = d.month AND c.project = other.id
UNION
SELECT c.month, c.project, c.fingerprint, c.intervals FROM close_print c WHERE c.month = %(month)s
UNION
SELECT reserved.month, reserved.project, '', 0
FROM reserved
LEFT JOIN close_print c ON c.month = reserved.month AND c.project = reserved.project
WHERE reserved.month = %(month)s AND c.project IS NULL
