-- Of pools that are reserved what was idle: an interval with as many GPUs for every stretch in which neither the capacity nor what
-- is taken of it changes. `payer` comes before it, portal_reserved_pools.sql and the CTEs of metering's capacity_levels.sql.
idle AS (
    SELECT r.id, r.project_id AS project, p.key, r.flavor_id AS ware, (l.capacity - l.taken)::bigint AS quantity,
           greatest(l.starts_at, r.valid_from) AS started_at, least(l.ends_at, r.valid_to) AS ended_at
    FROM quotas_poolreservation r
    JOIN payer p ON p.project = r.project_id
    JOIN catalog_gpupool o ON o.id = r.pool_id
    JOIN level l
        ON l.site = o.site_id AND l.gpu_type = o.gpu_type_id AND l.capacity > l.taken AND l.ends_at > r.valid_from
        AND (r.valid_to IS NULL OR l.starts_at < r.valid_to)
    WHERE %(projects_asked)s::uuid[] IS NULL OR r.project_id = ANY (%(projects_asked)s::uuid[])
)
