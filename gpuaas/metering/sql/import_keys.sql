-- What the names of a file mean here, once for each combination, or why they mean nothing.
-- Parameters: shared (meters that have no flavor), devices (meters that have one).
ANALYZE import_usage;
CREATE TEMPORARY TABLE import_key ON COMMIT DROP AS
SELECT n.*, w.site_id AS site, p.id AS project_id, w.id AS workspace_id, f.id AS flavor_id,
       coalesce(o.resource_name, n.meter) AS resource, coalesce(o.id::text, n.meter) AS gpus,
       CASE
           WHEN p.id IS NULL THEN 'there is no project ' || n.project
           WHEN n.workspace = '' THEN 'workspace is empty; the portal counts by workspace'
           WHEN c.found = 0 THEN 'the project ' || n.project || ' has no workspace ' || n.workspace
           WHEN w.id IS NULL THEN 'the project ' || n.project || ' had ' || c.found || ' workspaces ' || n.workspace
               || '; write the id of the one that is meant'
           WHEN n.meter <> ALL (%(shared)s::text[] || %(devices)s::text[]) THEN 'usage of the meter ' || n.meter ||
                ' is not taken in; there are '
               || array_to_string(%(shared)s::text[] || %(devices)s::text[], ', ')
           WHEN n.meter = ANY (%(shared)s::text[]) AND n.flavor <> '' THEN n.meter || ' is of no flavor; leave it empty'
           WHEN n.meter = ANY (%(devices)s::text[]) AND n.flavor = '' THEN 'flavor is empty; ' || n.meter || ' is of a flavor'
           WHEN n.flavor <> '' AND f.id IS NULL THEN 'there is no flavor ' || n.flavor
           WHEN n.flavor <> '' AND o.site_id <> w.site_id THEN 'the flavor ' || n.flavor || ' is not of the site of the workspace '
               || n.workspace
           WHEN n.price_class <> coalesce(f.price_class, 'on_demand') THEN 'the price class here is '
               || coalesce(f.price_class, 'on_demand') || ', not ' || n.price_class
           ELSE ''
       END AS problem
FROM (SELECT DISTINCT project, workspace, flavor, meter, price_class FROM import_usage) n
LEFT JOIN tenants_project p ON p.slug = n.project
-- a name is free again once its workspace is deleted: the one that lives is meant, else the only one there was
CROSS JOIN LATERAL (
    SELECT count(*) AS found, count(*) FILTER (WHERE state <> 'deleted') AS living,
           (array_agg(id ORDER BY state = 'deleted'))[1] AS first
    FROM workspaces_workspace WHERE project_id = p.id AND n.workspace IN (name, id::text)
) c
LEFT JOIN workspaces_workspace w ON w.id = c.first AND (c.living = 1 OR c.found = 1)
LEFT JOIN catalog_flavor f ON f.slug = n.flavor
LEFT JOIN catalog_gpupool o ON o.id = f.pool_id;
