-- A consumer is in one state at a time, and the stretches of a machine (`<uid of the first>:<what began it>`) follow each other. So
-- what is open of it in another meter, or began before, ended when this one began, unless it was seen later than this was told.
UPDATE metering_usageinterval AS t
SET ended_at = greatest(t.started_at, least(t.last_seen_at, e.started_at)),
    last_seen_at = greatest(t.started_at, least(t.last_seen_at, e.started_at)),
    ended_by = 'proof_of_life'
FROM unnest(%(uid)s::text[], %(meter)s::text[], %(started_at)s::timestamptz[], %(told_at)s::timestamptz[])
    AS e (uid, meter, started_at, told_at)
WHERE t.site_id = %(site)s AND t.ended_at IS NULL AND t.meter = ANY(%(meters)s)
  AND split_part(t.consumer_uid, ':', 1) = split_part(e.uid, ':', 1) AND t.last_seen_at <= e.told_at
  AND CASE WHEN t.consumer_uid = e.uid THEN t.meter <> e.meter ELSE t.started_at < e.started_at END
