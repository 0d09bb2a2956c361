-- What each budget counts, by day: minor units and GPU-seconds held. What `rated_sql` makes comes before it, with days as
-- slots and by holder, and cards.sql. One pass for all budgets.
-- Parameters: budgets, organizations, own_projects, holders_of, firsts, lasts.
, budget AS (
    SELECT * FROM unnest(
        %(budgets)s::uuid[], %(organizations)s::uuid[], %(own_projects)s::uuid[], %(holders_of)s::uuid[],
        %(firsts)s::date[], %(lasts)s::date[]
    ) AS b (id, organization, project, holder, first_day, last_day)
)
-- Added up before it meets budgets, of which there may be many: holders are told apart only where one of them has a budget.
, spent AS MATERIALIZED (
    SELECT p.organization_id AS organization, d.project, d.slot,
           CASE WHEN d.holder = ANY (%(holders_of)s::uuid[]) THEN d.holder END AS holder,
           sum(d.minor) AS minor, sum(d.unit_seconds * coalesce(k.share, 1)) FILTER (WHERE d.meter = 'gpu_held') AS gpu_seconds
    FROM rated d
    JOIN tenants_project p ON p.id = d.project
    LEFT JOIN card k ON k.ware = CASE WHEN d.resource <> '' THEN md5(d.resource)::uuid ELSE d.flavor END
    GROUP BY 1, 2, 3, 4
)
SELECT b.id, d.slot, coalesce(sum(d.minor), 0)::bigint, coalesce(sum(d.gpu_seconds), 0)::bigint
FROM spent d
JOIN budget b
    ON b.organization = d.organization AND (b.project IS NULL OR b.project = d.project)
    AND (b.holder IS NULL OR b.holder = d.holder) AND d.slot BETWEEN b.first_day AND b.last_day
GROUP BY b.id, d.slot
