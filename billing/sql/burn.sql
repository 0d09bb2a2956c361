-- What all open usage costs per hour at one instant, in millionths; exact. Parameters: card, meters, now, projects.
SELECT u.project_id, sum(u.quantity * t.price_micro)::bigint AS micro_per_hour
FROM metering_usageinterval u
JOIN tariff t
    ON t.flavor = coalesce(u.flavor_id, '00000000-0000-0000-0000-000000000000') AND t.meter = u.meter
    AND t.starts_at <= %(now)s AND t.ends_at > %(now)s
WHERE u.ended_at IS NULL AND u.started_at <= %(now)s AND t.price_micro IS NOT NULL
  AND (%(projects)s::uuid[] IS NULL OR u.project_id = ANY (%(projects)s::uuid[]))
  AND (%(workspace)s::uuid IS NULL OR u.workspace_id = %(workspace)s::uuid)
GROUP BY u.project_id
