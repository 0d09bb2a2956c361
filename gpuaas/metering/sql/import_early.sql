-- Months before a moment in which new rows of a file start: the month, its first line, how many rows. Parameters: zone, floor.
SELECT date_trunc('month', started_at AT TIME ZONE %(zone)s)::date, min(line), count(*)
FROM import_told
WHERE NOT known AND started_at < %(floor)s
GROUP BY 1
ORDER BY 1
