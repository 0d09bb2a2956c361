, asked AS (
    SELECT DISTINCT o.site_id AS site, o.gpu_type_id AS gpu_type
    FROM quotas_poolreservation r
    JOIN catalog_gpupool o ON o.id = r.pool_id
    WHERE r.valid_from < %(last)s AND (r.valid_to IS NULL OR r.valid_to > %(first)s)
      AND (%(projects_asked)s::uuid[] IS NULL OR r.project_id = ANY (%(projects_asked)s::uuid[]))
),
