-- What each budget counts, by day: minor units and GPU-seconds held. What `rated_sql` makes comes before it, with days as
-- slots and by workspace. One pass for all budgets.
-- Parameters: budgets, organizations, own_projects, workspaces, firsts, lasts.
, budget AS (
    SELECT * FROM unnest(
        %(budgets)s::uuid[], %(organizations)s::uuid[], %(own_projects)s::uuid[], %(workspaces)s::uuid[],
        %(firsts)s::date[], %(lasts)s::date[]
    ) AS b (id, organization, project, workspace, first_day, last_day)
)
SELECT b.id, d.slot, coalesce(sum(d.minor), 0)::bigint,
       coalesce(sum(d.unit_seconds) FILTER (WHERE d.meter = 'gpu_held'), 0)::bigint
FROM rated d
JOIN tenants_project p ON p.id = d.project
JOIN budget b
    ON b.organization = p.organization_id AND (b.project IS NULL OR b.project = d.project)
    AND (b.workspace IS NULL OR b.workspace = d.workspace) AND d.slot BETWEEN b.first_day AND b.last_day
GROUP BY b.id, d.slot
