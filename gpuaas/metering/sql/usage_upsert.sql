-- One row per (site, consumer, meter, resource). What is known only grows: an end that was observed beats a proof of life,
-- the first proof of life stands, and nothing reopens a row. last_seen_at equals ended_at once a row has ended.
-- The first deadline of what is being deleted counts: no end is later, whatever is told of it afterwards, though an earlier one
-- may still come.
-- What the warden found to be too much is marked, and what made the consumer is named, whichever was written first.
INSERT INTO metering_usageinterval AS t (
    id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, owner, meter, resource_name,
    quantity, started_at, ended_at, last_seen_at, ended_by, deadline_at, surplus
)
SELECT e.id, %(site)s, e.project, e.workspace, e.flavor, e.uid, e.name, e.node, e.owner, e.meter, e.resource,
       e.quantity, e.started_at, e.ended_at, e.last_seen_at, e.ended_by, e.deadline_at, v.id IS NOT NULL
FROM unnest(
    %(id)s::uuid[], %(project)s::uuid[], %(workspace)s::uuid[], %(flavor)s::uuid[], %(uid)s::text[], %(name)s::text[],
    %(node)s::text[], %(owner)s::text[], %(meter)s::text[], %(resource)s::text[], %(quantity)s::bigint[], %(started_at)s::timestamptz[],
    %(ended_at)s::timestamptz[], %(last_seen_at)s::timestamptz[], %(ended_by)s::text[], %(deadline_at)s::timestamptz[]
) AS e (
    id, project, workspace, flavor, uid, name, node, owner, meter, resource, quantity, started_at, ended_at, last_seen_at,
    ended_by, deadline_at
)
LEFT JOIN workspaces_eviction v
    ON v.workspace_id = e.workspace AND v.consumer_uid = e.uid AND v.resource_name = e.resource
ORDER BY e.uid, e.resource
ON CONFLICT (site_id, consumer_uid, meter, resource_name) DO UPDATE SET
    node = CASE WHEN t.node = '' THEN excluded.node ELSE t.node END,
    owner = CASE WHEN t.owner = '' OR (t.owner LIKE 'Pod/%%' AND excluded.owner <> '') THEN excluded.owner ELSE t.owner END,
    ended_at = CASE
        WHEN t.ended_by = 'observed' AND excluded.ended_by = 'observed' AND t.ended_at = t.deadline_at
            THEN least(t.ended_at, excluded.ended_at)
        WHEN t.ended_by = 'observed' OR (t.ended_by <> '' AND excluded.ended_by <> 'observed') THEN t.ended_at
        WHEN excluded.ended_by = 'observed' THEN greatest(least(excluded.ended_at, t.deadline_at), t.started_at)
        WHEN excluded.ended_by = 'proof_of_life'
            THEN least(greatest(t.last_seen_at, excluded.ended_at), t.deadline_at, excluded.deadline_at)
    END,
    last_seen_at = CASE
        WHEN t.ended_by = 'observed' AND excluded.ended_by = 'observed' AND t.ended_at = t.deadline_at
            THEN least(t.ended_at, excluded.ended_at)
        WHEN t.ended_by = 'observed' OR (t.ended_by <> '' AND excluded.ended_by <> 'observed') THEN t.last_seen_at
        WHEN excluded.ended_by = 'observed' THEN greatest(least(excluded.ended_at, t.deadline_at), t.started_at)
        WHEN excluded.ended_by = 'proof_of_life'
            THEN least(greatest(t.last_seen_at, excluded.ended_at), t.deadline_at, excluded.deadline_at)
        ELSE greatest(t.last_seen_at, excluded.last_seen_at)
    END,
    deadline_at = least(t.deadline_at, excluded.deadline_at),
    ended_by = CASE
        WHEN t.ended_by = 'observed' OR (t.ended_by <> '' AND excluded.ended_by <> 'observed') THEN t.ended_by
        ELSE excluded.ended_by
    END,
    surplus = t.surplus OR excluded.surplus
WHERE (t.ended_by = '' AND (excluded.ended_by <> '' OR excluded.last_seen_at > t.last_seen_at))
   OR (t.ended_by = '' AND excluded.deadline_at < coalesce(t.deadline_at, 'infinity'))
   OR (t.ended_by = 'proof_of_life' AND excluded.ended_by = 'observed')
   OR (t.ended_by = 'observed' AND t.ended_at = t.deadline_at AND excluded.ended_by = 'observed' AND excluded.ended_at < t.ended_at)
   OR (excluded.owner NOT IN ('', t.owner) AND (t.owner = '' OR t.owner LIKE 'Pod/%%'))
