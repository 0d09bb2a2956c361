-- All that is held and used at the instant `now`: open intervals, and the idle GPUs of reserved pools as burn_idle.sql
-- tells them. Each with
-- the moment until which it goes on if nothing changes: the end of its lease, or of the sleep after it, which takes the
-- stored date or a whole grace period from now; `now` where it is being given back.
-- What waits in a warm pool has no end. The CTEs of tariff.sql come before it.
-- Parameters: now, grace (an interval), projects, holders (workspaces or clusters; null = all), idle_projects, idle_wares,
-- idle_gpus, idle_untils.
, open AS (
    SELECT u.project_id AS project, coalesce(u.workspace_id, u.cluster_id) AS holder,
           CASE WHEN u.workspace_id IS NULL THEN 'cluster' ELSE 'workspace' END AS kind,
           coalesce(u.flavor_id, n.ware, '00000000-0000-0000-0000-000000000000') AS ware, u.meter, u.surplus, u.quantity,
           CASE WHEN u.meter = 'storage_held' AND u.resource_name <> u.meter THEN u.resource_name ELSE '' END AS resource,
           CASE
               WHEN coalesce(w.state, c.state) = 'deleting' THEN %(now)s
               WHEN coalesce(w.state, c.state) = 'suspending' AND u.flavor_id IS NOT NULL THEN %(now)s
               WHEN c.warm_pool_id IS NOT NULL AND c.claimed_at IS NULL THEN 'infinity'::timestamptz
               WHEN coalesce(w.lease_ends_at, c.lease_ends_at) > %(now)s THEN coalesce(w.lease_ends_at, c.lease_ends_at)
               ELSE greatest(coalesce(w.deleted_after, c.deleted_after, %(now)s + %(grace)s::interval), %(now)s)
           END AS until
    FROM metering_usageinterval u
    LEFT JOIN unsold n ON u.flavor_id IS NULL AND n.resource_name = u.resource_name
    LEFT JOIN workspaces_workspace w
        ON w.id = u.workspace_id AND (%(projects)s::uuid[] IS NULL OR w.project_id = ANY (%(projects)s::uuid[]))
    LEFT JOIN clusters_cluster c ON c.id = u.cluster_id
    WHERE u.ended_at IS NULL AND u.started_at <= %(now)s
      AND (%(projects)s::uuid[] IS NULL OR u.project_id = ANY (%(projects)s::uuid[]))
      AND (%(holders)s::uuid[] IS NULL OR u.workspace_id = ANY (%(holders)s::uuid[]) OR u.cluster_id = ANY (%(holders)s::uuid[]))
    UNION ALL
    SELECT i.project, NULL, 'idle', i.ware, 'gpu_idle', false, i.gpus, '', coalesce(i.until, 'infinity'::timestamptz)
    FROM unnest(%(idle_projects)s::uuid[], %(idle_wares)s::uuid[], %(idle_gpus)s::bigint[], %(idle_untils)s::timestamptz[])
        AS i (project, ware, gpus, until)
)
