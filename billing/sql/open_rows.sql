-- Each interval that is open at the instant `now`, with the moment until which it goes on if nothing changes, at most `last`: the end
-- of its lease, or of the sleep after it, which takes the stored date or a whole grace period from now; `now` where it is being
-- given back. What waits in a warm pool has no end. Either open_apart.sql or open_added.sql comes after it.
-- Parameters: now, last, grace (an interval), projects, holders (workspaces or clusters; null = all).
, open_row AS (
    SELECT u.project_id AS project, coalesce(u.workspace_id, u.cluster_id) AS holder, u.workspace_id IS NULL AS of_cluster,
           u.flavor_id AS flavor, u.resource_name, u.meter, u.surplus, u.quantity, least(%(last)s, CASE
               WHEN coalesce(w.state, c.state) = 'deleting' THEN %(now)s
               WHEN coalesce(w.state, c.state) = 'suspending' AND u.flavor_id IS NOT NULL THEN %(now)s
               WHEN c.warm_pool_id IS NOT NULL AND c.claimed_at IS NULL THEN 'infinity'::timestamptz
               WHEN coalesce(w.lease_ends_at, c.lease_ends_at) > %(now)s THEN coalesce(w.lease_ends_at, c.lease_ends_at)
               ELSE greatest(coalesce(w.deleted_after, c.deleted_after, %(now)s + %(grace)s::interval), %(now)s)
           END) AS until
    FROM metering_usageinterval u
    LEFT JOIN workspaces_workspace w
        ON w.id = u.workspace_id AND (%(projects)s::uuid[] IS NULL OR w.project_id = ANY (%(projects)s::uuid[]))
    LEFT JOIN clusters_cluster c ON c.id = u.cluster_id
    WHERE u.ended_at IS NULL AND u.started_at <= %(now)s
      AND (%(projects)s::uuid[] IS NULL OR u.project_id = ANY (%(projects)s::uuid[]))
      AND (%(holders)s::uuid[] IS NULL OR u.workspace_id = ANY (%(holders)s::uuid[]) OR u.cluster_id = ANY (%(holders)s::uuid[]))
)
