SELECT p.id, p.slug, i.meter, f.slug, sum(u.seconds), coalesce(sum(u.seconds) FILTER (WHERE i.surplus), 0)
FROM metering_usageinterval i
CROSS JOIN LATERAL (
    SELECT i.quantity * extract(EPOCH FROM
        least(coalesce(i.ended_at, %(now)s), %(ends_at)s) - greatest(i.started_at, %(starts_at)s)
    )::bigint AS seconds
) u
JOIN tenants_project p ON p.id = i.project_id
LEFT JOIN catalog_flavor f ON f.id = i.flavor_id
WHERE i.project_id = ANY (%(projects)s::uuid[])
  AND i.started_at < %(ends_at)s
  AND coalesce(i.ended_at, %(now)s) > greatest(i.started_at, %(starts_at)s)
GROUP BY 1, 2, 3, 4
ORDER BY p.slug, i.meter, f.slug NULLS LAST
