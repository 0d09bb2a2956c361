-- Holders from %(first)s to %(last)s: workspaces that began at any time of the year and lived for a square of a lot of 60 days, most
-- of them short; with what each held, ran, reserved and did. Projects are drawn by a square too: the first has a hundredth of all.
-- Parameters: first, last, projects, sites, pods (of a holder), since, until, seed.
CREATE TEMPORARY TABLE sample_holder ON COMMIT DROP AS
SELECT h.*, p.organization_id, f.site_id, f.id AS flavor_id, f.type_slug, f.gpus * h.count AS gpus, f.vcpus * h.count AS vcpus,
       f.memory_gib * h.count AS memory_gib, u.id AS user_id, u.username, pg_temp.key(h.created_at, h.n, 'workspace', %(seed)s) AS id,
       CASE WHEN h.ends_at <= %(until)s THEN h.ends_at END AS ended_at,
       'ws-' || lpad(h.n::text, 7, '0') AS name
FROM (
    SELECT n, b.created_at,
           b.created_at + (600 + floor(5184000 * pg_temp.lot(n, 'life', %(seed)s) ^ 2)) * interval '1 second' AS ends_at,
           1 + floor(%(projects)s * pg_temp.lot(n, 'project', %(seed)s) ^ 2)::int AS project,
           1 + floor(%(sites)s * pg_temp.lot(n, 'site', %(seed)s))::int AS site,
           1 + floor(4 * pg_temp.lot(n, 'kind', %(seed)s))::int AS kind,
           CASE WHEN pg_temp.lot(n, 'whole', %(seed)s) < 0.1 THEN 8 ELSE 1 END AS size,
           1 + floor(3 * pg_temp.lot(n, 'count', %(seed)s))::int AS count
    FROM generate_series(%(first)s::bigint, %(last)s) n
    CROSS JOIN LATERAL (
        SELECT %(since)s::timestamptz + floor(31535000 * pg_temp.lot(n, 'begin', %(seed)s)) * interval '1 second' AS created_at
    ) b
) h
JOIN sample_flavor f ON f.number = h.site AND f.kind = h.kind AND f.gpus = h.size
JOIN tenants_project p ON p.id = pg_temp.key(%(since)s, h.project, 'project', %(seed)s)
JOIN tenants_user u ON u.id = pg_temp.key(%(since)s, h.project, 'user', %(seed)s);
ALTER TABLE sample_holder ADD COLUMN project_id uuid;
UPDATE sample_holder SET project_id = pg_temp.key(%(since)s, project, 'project', %(seed)s);

INSERT INTO workspaces_workspace (
    id, project_id, site_id, name, state, storage_gib, created_by_id, adopted_name, placement, failure, ensured_digest,
    lease_ends_at, created_at, ready_at, deleted_at, conditions, observed, version, attempts
)
SELECT id, project_id, site_id, name, CASE WHEN ended_at IS NULL THEN 'ready' ELSE 'deleted' END, 100, user_id, '', '', '', '',
       greatest(ends_at, %(until)s::timestamptz + interval '3 days'), created_at, created_at + interval '20 seconds', ended_at,
       '{}', '{}', 3, 0
FROM sample_holder;

INSERT INTO workspaces_workspaceflavor (workspace_id, flavor_id, count, confirmed)
SELECT id, flavor_id, count, CASE WHEN ended_at IS NULL THEN count ELSE 0 END FROM sample_holder ORDER BY n;

INSERT INTO workspaces_workspacemember (workspace_id, user_id, role) SELECT id, user_id, 'admin' FROM sample_holder ORDER BY n;

INSERT INTO workspaces_workspacetransition (subject_id, old, new, actor, reason, at)
SELECT h.id, t.old, t.new, h.username, '', CASE WHEN t.new IN ('deleting', 'deleted') THEN h.ended_at ELSE h.created_at END
FROM sample_holder h, (
    VALUES (1, 'requested', 'provisioning'), (2, 'provisioning', 'ready'), (3, 'ready', 'deleting'), (4, 'deleting', 'deleted')
) t (number, old, new)
WHERE t.number < 3 OR h.ended_at IS NOT NULL ORDER BY h.n, t.number;

INSERT INTO workspaces_operation (id, workspace_id, kind, requested_by, requested_at, finished_at, succeeded, summary, spec_digest)
SELECT pg_temp.key(o.at, h.n, o.kind, %(seed)s), h.id, o.kind, h.username, o.at, o.at + interval '20 seconds', true, '', ''
FROM sample_holder h
CROSS JOIN LATERAL (VALUES ('create', h.created_at), ('delete', h.ended_at)) o (kind, at)
WHERE o.at IS NOT NULL;

INSERT INTO workspaces_step (operation_id, position, key, label, state, started_at, finished_at, attempts, refusals, detail)
SELECT o.id, s.position, s.key, s.label, 'done', o.requested_at, o.finished_at, 1, 0, ''
FROM workspaces_operation o
JOIN sample_holder h ON h.id = o.workspace_id
CROSS JOIN (VALUES (0, 'admission', 'Limits checked'), (1, 'namespace', 'Namespace'), (2, 'quota', 'Quota'), (3, 'access', 'Access'))
    s (position, key, label);

INSERT INTO quotas_reservation (id, holder_kind, holder_id, project_id, site_id, resource, amount, state, created_at, released_at)
SELECT pg_temp.key(h.created_at, h.n, r.resource, %(seed)s), 'workspace', h.id, h.project_id, h.site_id, r.resource, r.amount,
       CASE WHEN h.ended_at IS NULL THEN 'held' ELSE 'released' END, h.created_at, h.ended_at
FROM sample_holder h
CROSS JOIN LATERAL (
    VALUES ('gpu:' || h.type_slug, h.gpus), ('vcpu', h.vcpus), ('memory', h.memory_gib), ('storage', 100)
) r (resource, amount);

WITH held AS (
    INSERT INTO workspaces_holding (workspace_id, flavor_id, meter, quantity, started_at, ended_at)
    SELECT h.id, CASE WHEN m.meter = 'gpu_held' THEN h.flavor_id END, m.meter, m.quantity, h.created_at + interval '20 seconds', h.ended_at
    FROM sample_holder h
    CROSS JOIN LATERAL (
        VALUES ('gpu_held', h.gpus), ('vcpu_held', h.vcpus), ('memory_held', h.memory_gib), ('storage_held', 100)
    ) m (meter, quantity)
    RETURNING *
)
INSERT INTO metering_usageinterval (
    id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter, resource_name, quantity, started_at,
    ended_at, last_seen_at, ended_by
)
SELECT pg_temp.key(d.started_at, h.n, d.meter, %(seed)s), h.site_id, h.project_id, h.id, d.flavor_id, 'holding:' || d.id, h.name, '',
       d.meter, CASE WHEN d.meter = 'gpu_held' THEN 'nvidia.com/gpu' ELSE d.meter END, d.quantity, d.started_at, d.ended_at,
       coalesce(d.ended_at, %(until)s), CASE WHEN d.ended_at IS NULL THEN '' ELSE 'observed' END
FROM held d JOIN sample_holder h ON h.id = d.workspace_id;

-- pods: one after the other, so that no more ran than was held
INSERT INTO metering_usageinterval (
    id, site_id, project_id, workspace_id, flavor_id, consumer_uid, consumer_name, node, meter, resource_name, quantity, started_at,
    ended_at, last_seen_at, ended_by, owner
)
SELECT pg_temp.key(r.starts_at, h.n * 10000 + k, 'pod', %(seed)s), h.site_id, h.project_id, h.id, h.flavor_id,
       md5('pod' || h.n || '/' || k || '/' || %(seed)s), 'train-' || k, h.type_slug || '-0001', 'gpu_allocated', 'nvidia.com/gpu', h.gpus,
       r.starts_at, r.ends_at, r.ends_at, 'observed', 'Job/train'
FROM sample_holder h
CROSS JOIN generate_series(0, %(pods)s - 1) k
CROSS JOIN LATERAL (
    SELECT floor(extract(EPOCH FROM coalesce(h.ended_at, %(until)s) - h.created_at - interval '20 seconds') / %(pods)s)::bigint AS turn
) t
CROSS JOIN LATERAL (
    SELECT h.created_at + (20 + k * t.turn) * interval '1 second' AS starts_at,
           h.created_at
               + (20 + k * t.turn + floor(t.turn * (0.2 + 0.7 * pg_temp.lot(h.n * 10000 + k, 'pod', %(seed)s)))) * interval '1 second'
               AS ends_at
) r
WHERE t.turn > 0;

INSERT INTO tenants_auditentry (
    at, actor, actor_id, token_prefix, action, target_kind, target_id, target_name, organization_id, project_id, after, request_id
)
SELECT a.at, h.username, h.user_id, '', a.action, 'workspace', h.id, h.name, h.organization_id, h.project_id, '{}', ''
FROM sample_holder h
CROSS JOIN LATERAL (VALUES ('workspace.request', h.created_at), ('workspace.delete', h.ended_at)) a (action, at)
WHERE a.at IS NOT NULL ORDER BY h.n;

DROP TABLE sample_holder;
