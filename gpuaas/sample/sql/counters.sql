-- Limits of every project and organization, and what sites can sell: what is used is the sum of what is reserved.
-- Parameters: nodes (of a pool), since, seed.
CREATE TEMPORARY TABLE sample_resource ON COMMIT DROP AS
SELECT DISTINCT 'gpu:' || type_slug AS resource FROM sample_pool UNION SELECT unnest(ARRAY['vcpu', 'memory', 'storage']);

INSERT INTO quotas_limit (id, project_id, resource, hard, used, version)
SELECT gen_random_uuid(), p.id, s.resource, CASE WHEN s.resource LIKE 'gpu:%%' THEN 10000 ELSE 10000000 END, coalesce(r.used, 0), 1
FROM tenants_project p
CROSS JOIN sample_resource s
LEFT JOIN (
    SELECT project_id, resource, sum(amount) AS used FROM quotas_reservation WHERE state = 'held' GROUP BY 1, 2
) r ON r.project_id = p.id AND r.resource = s.resource
WHERE p.slug LIKE 'sample-%%';

INSERT INTO quotas_limit (id, organization_id, resource, hard, used, version)
SELECT gen_random_uuid(), p.organization_id, l.resource, NULL, sum(l.used), 1
FROM quotas_limit l
JOIN tenants_project p ON p.id = l.project_id
WHERE p.slug LIKE 'sample-%%'
GROUP BY p.organization_id, l.resource;

INSERT INTO quotas_sitecapacity (id, site_id, resource, healthy, oversubscription_percent, hard, used)
SELECT gen_random_uuid(), s.site_id, e.resource, CASE WHEN e.resource LIKE 'gpu:%%' THEN %(nodes)s * 8 ELSE 0 END, 100,
       CASE WHEN e.resource LIKE 'gpu:%%' THEN %(nodes)s * 8 END, coalesce(r.used, 0)
FROM (SELECT DISTINCT site_id FROM sample_pool) s
CROSS JOIN sample_resource e
LEFT JOIN (
    SELECT site_id, resource, sum(amount) AS used FROM quotas_reservation WHERE state = 'held' GROUP BY 1, 2
) r ON r.site_id = s.site_id AND r.resource = e.resource;

INSERT INTO billing_budget (
    id, organization_id, name, measure, amount, period, level, version, created_by, created_at
)
SELECT pg_temp.key(%(since)s, row_number() OVER (ORDER BY id), 'budget', %(seed)s), id, 'Month', 'money', 1000000000, 'month',
       'organization', 1, 'sample-operator', %(since)s
FROM tenants_organization WHERE slug LIKE 'sample-%%';
