-- Organizations of ten projects each, a person for each project, and who belongs where: the person of a project is its admin
-- and a member of the next two; the person of an organization's first project owns it.
-- Parameters: projects, since, seed.
INSERT INTO tenants_organization (id, slug, name, created_at)
SELECT pg_temp.key(%(since)s, n, 'organization', %(seed)s), 'sample-' || lpad(n::text, 5, '0'), 'Sample organization ' || n, %(since)s
FROM generate_series(1, ceil(%(projects)s / 10.0)::int) n;

INSERT INTO tenants_project (id, organization_id, slug, name, version, created_at)
SELECT pg_temp.key(%(since)s, n, 'project', %(seed)s), pg_temp.key(%(since)s, 1 + (n - 1) / 10, 'organization', %(seed)s),
       'sample-' || lpad(n::text, 6, '0'), 'Sample project ' || n, 1, %(since)s
FROM generate_series(1, %(projects)s) n;

INSERT INTO tenants_user (
    id, username, email, first_name, last_name, password, is_superuser, is_staff, is_active, date_joined, platform_role, time_zone
)
SELECT pg_temp.key(%(since)s, n, 'user', %(seed)s), 'sample-' || lpad(n::text, 6, '0'), 'sample-' || n || '@example.org', 'Sample', n,
       '!' || md5('password' || n), false, false, true, %(since)s, '', 'Europe/Berlin'
FROM generate_series(1, %(projects)s) n;

INSERT INTO tenants_user (
    id, username, email, first_name, last_name, password, is_superuser, is_staff, is_active, date_joined, platform_role, time_zone
)
VALUES (pg_temp.key(%(since)s, 0, 'user', %(seed)s), 'sample-operator', '', 'Sample', 'Operator', '!', false, false, true, %(since)s,
        'operator', 'Europe/Berlin');

INSERT INTO tenants_projectmembership (project_id, user_id, role, created_at)
SELECT pg_temp.key(%(since)s, 1 + (n - 1 + k) %% %(projects)s, 'project', %(seed)s), pg_temp.key(%(since)s, n, 'user', %(seed)s),
       CASE k WHEN 0 THEN 'admin' ELSE 'member' END, %(since)s
FROM generate_series(1, %(projects)s) n, generate_series(0, least(3, %(projects)s) - 1) k;

INSERT INTO tenants_organizationmembership (organization_id, user_id, role, created_at)
SELECT o.id, pg_temp.key(%(since)s, n, 'user', %(seed)s), 'owner', %(since)s
FROM generate_series(1, %(projects)s, 10) n
JOIN tenants_organization o ON o.id = pg_temp.key(%(since)s, 1 + (n - 1) / 10, 'organization', %(seed)s);
