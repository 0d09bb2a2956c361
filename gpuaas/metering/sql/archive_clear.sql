-- Deletes the intervals of a file that still are what the file says: one that changed since stays, and comes into a later file.
DELETE FROM metering_usageinterval i
USING unnest(
    %(id)s::uuid[], %(workspace_id)s::uuid[], %(cluster_id)s::uuid[], %(flavor_id)s::uuid[], %(node)s::text[], %(owner)s::text[],
    %(meter)s::text[], %(resource_name)s::text[], %(quantity)s::bigint[], %(started_at)s::timestamptz[], %(ended_at)s::timestamptz[],
    %(last_seen_at)s::timestamptz[], %(ended_by)s::text[], %(surplus)s::boolean[]
) AS f (
    id, workspace_id, cluster_id, flavor_id, node, owner, meter, resource_name, quantity, started_at, ended_at, last_seen_at,
    ended_by, surplus
)
WHERE i.id = f.id
  AND (i.workspace_id, i.cluster_id, i.flavor_id, i.node, i.owner, i.meter, i.resource_name, i.quantity, i.started_at, i.ended_at,
       i.last_seen_at, i.ended_by, i.surplus)
    IS NOT DISTINCT FROM
      (f.workspace_id, f.cluster_id, f.flavor_id, f.node, f.owner, f.meter, f.resource_name, f.quantity, f.started_at, f.ended_at,
       f.last_seen_at, f.ended_by, f.surplus)
