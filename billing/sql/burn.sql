-- What all open usage costs per hour at one instant, in millionths; exact. Of tiers the first price.
-- The CTEs of tariff.sql come before it. Parameters: now, projects, workspace (or cluster).
SELECT u.project_id,
       sum(u.quantity * div(2 * t.price_micro::numeric * CASE WHEN u.surplus THEN t.surplus_percent ELSE 100 END
                            * (10000 - t.discount) + 1000000, 2000000))::bigint AS micro_per_hour
FROM metering_usageinterval u
JOIN payer p ON p.project = u.project_id
JOIN tariff t
    ON t.key = p.key AND t.ware = coalesce(u.flavor_id, '00000000-0000-0000-0000-000000000000') AND t.meter = u.meter
    AND t.starts_at <= %(now)s AND t.ends_at > %(now)s
WHERE u.ended_at IS NULL AND u.started_at <= %(now)s AND t.price_micro IS NOT NULL
  AND (%(projects)s::uuid[] IS NULL OR u.project_id = ANY (%(projects)s::uuid[]))
  AND (%(workspace)s::uuid IS NULL OR %(workspace)s::uuid IN (u.workspace_id, u.cluster_id))
GROUP BY u.project_id
