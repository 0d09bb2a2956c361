-- All that is held and used at the instant `now`: open intervals, and the idle GPUs of reserved pools as burn_idle.sql
-- tells them, each with the moment until which it goes on if nothing changes. What open_rows.sql makes comes before it, and the
-- CTEs of tariff.sql. Parameters: last, idle_projects, idle_wares, idle_gpus, idle_untils.
, open AS (
    SELECT u.project, u.holder, CASE WHEN u.of_cluster THEN 'cluster' ELSE 'workspace' END AS kind,
           coalesce(u.flavor, n.ware, '00000000-0000-0000-0000-000000000000') AS ware, u.meter, u.surplus, u.quantity,
           CASE WHEN u.meter = 'storage_held' AND u.resource_name <> u.meter THEN u.resource_name ELSE '' END AS resource, u.until
    FROM open_part u
    LEFT JOIN unsold n ON u.flavor IS NULL AND n.resource_name = u.resource_name
    UNION ALL
    SELECT i.project, NULL, 'idle', i.ware, 'gpu_idle', false, i.gpus, '', least(coalesce(i.until, 'infinity'::timestamptz), %(last)s)
    FROM unnest(%(idle_projects)s::uuid[], %(idle_wares)s::uuid[], %(idle_gpus)s::bigint[], %(idle_untils)s::timestamptz[])
        AS i (project, ware, gpus, until)
)
