-- How many GPUs of a workspace were busy at the same time, and how much of the time and of what its pods had was seen. Of a card that
-- several pods share, each has a share of its own.
WITH looks AS (
  SELECT
    at, count(DISTINCT (device, instance, pod)) FILTER (WHERE utilization >= %(busy)s) AS busy,
    bool_or(utilization IS NULL) AS untold, sum(seconds) AS seconds
  FROM gpustats_gpusample
  WHERE workspace_id = %(workspace)s AND at > %(since)s AND at <= %(now)s
  GROUP BY at
), had AS (
  SELECT coalesce(sum(quantity * extract(epoch FROM
    least(coalesce(ended_at, %(now)s), %(now)s) - greatest(started_at, %(since)s))), 0) AS seconds
  FROM metering_usageinterval
  WHERE workspace_id = %(workspace)s AND meter = 'gpu_allocated' AND started_at < %(now)s
    AND (ended_at IS NULL OR ended_at > %(since)s)
)
SELECT
  CASE WHEN NOT bool_or(untold) THEN percentile_disc(0.95) WITHIN GROUP (ORDER BY busy) END,
  count(DISTINCT date_trunc('minute', at)), coalesce(sum(looks.seconds), 0), min(had.seconds)
FROM had
LEFT JOIN looks ON true
