-- All projects of a closed month that has to become final: what was used, and what it was rated from and invoiced before.
-- close_prints.sql comes before it. Parameters: month.
INSERT INTO close_changed
SELECT %(month)s, p.project, coalesce(c.fingerprint, ''), coalesce(c.intervals, 0)
FROM (
    SELECT project FROM close_print
    UNION
    SELECT project_id FROM billing_ratedusage WHERE month = %(month)s
    UNION
    SELECT project_id FROM billing_invoiceline WHERE charge_month = %(month)s
) p
LEFT JOIN close_print c ON c.project = p.project
