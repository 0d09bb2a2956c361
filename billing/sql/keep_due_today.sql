-- Projects of which less is kept of the day that runs than is past, where so much ended in what is not kept that a look takes long;
-- what goes on is one sum in any case. Parameters: day, starts_at, until, zone, many, most.
SELECT i.project_id AS project
FROM metering_usageinterval i
LEFT JOIN billing_keptmonth k
    ON k.project_id = i.project_id AND k.month = %(day)s AND k.zone = %(zone)s AND k.starts_at = %(starts_at)s
WHERE i.ended_at > %(starts_at)s AND i.ended_at > coalesce(k.until, %(starts_at)s) AND i.ended_at <= %(until)s
GROUP BY 1
HAVING count(*) >= %(many)s
ORDER BY 1
LIMIT %(most)s
