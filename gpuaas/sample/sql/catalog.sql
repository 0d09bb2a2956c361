-- Sites with four pools each, flavors of 1 and 8 GPUs, nodes, and a price for each flavor since the beginning.
-- Parameters: sites, nodes (of a pool), since, until, seed, currency, driver.
INSERT INTO catalog_gputype (
    id, slug, name, product, memory_gib, compute_capability, sharing, mig_profile, interconnect, state, created_at
)
SELECT pg_temp.key(%(since)s, n, 'type', %(seed)s), slug, name, product, memory, '', 'whole', '', '', 'active', %(since)s
FROM (VALUES
    (1, 'h100-sxm-80gb', 'H100 SXM 80 GB', 'NVIDIA-H100-80GB-HBM3', 80),
    (2, 'a100-sxm-80gb', 'A100 SXM 80 GB', 'NVIDIA-A100-SXM4-80GB', 80),
    (3, 'l40s-48gb', 'L40S 48 GB', 'NVIDIA-L40S', 48), (4, 'h200-sxm-141gb', 'H200 SXM 141 GB', 'NVIDIA-H200', 141)
) t (n, slug, name, product, memory)
ON CONFLICT (slug) DO NOTHING;

INSERT INTO catalog_site (
    id, slug, name, driver, endpoint, credentials, options, enabled, oversubscription_percent, server_version, conditions, probed_at,
    answered_at, reached_at, answer_ms, observed_digest, gpu_names, drift_policy, checks, fit, sell_unfit, version, attempts, created_at
)
SELECT pg_temp.key(%(since)s, n, 'site', %(seed)s), 'sample-' || lpad(n::text, 4, '0'), 'Sample site ' || n, %(driver)s, '', '', '{}',
       true, 100, '', '{}', %(until)s, %(until)s, %(since)s, 20, '', '["nvidia.com/gpu"]', 'repair', '{}', true, false, 1, 0, %(since)s
FROM generate_series(1, %(sites)s) n;

-- number: of the site; kind: of the GPU type
CREATE TEMPORARY TABLE sample_pool ON COMMIT DROP AS
SELECT s.id AS site_id, n AS number, k AS kind, t.id AS gpu_type_id, t.slug AS type_slug, t.name AS type_name,
       pg_temp.key(%(since)s, n * 4 + k, 'pool', %(seed)s) AS id
FROM generate_series(1, %(sites)s) n
JOIN catalog_site s ON s.id = pg_temp.key(%(since)s, n, 'site', %(seed)s)
CROSS JOIN unnest(ARRAY['h100-sxm-80gb', 'a100-sxm-80gb', 'l40s-48gb', 'h200-sxm-141gb']) WITH ORDINALITY AS u (slug, k)
JOIN catalog_gputype t ON t.slug = u.slug;

INSERT INTO catalog_gpupool (
    id, site_id, gpu_type_id, resource_name, selector, trouble, device_class, also, shares_with, capacity, healthy, allocated,
    largest_block, observed_at
)
SELECT id, site_id, gpu_type_id, 'nvidia.com/gpu', '{}', '', '', '[]', '[]', %(nodes)s * 8, %(nodes)s * 8, 0, 8, %(until)s FROM sample_pool;

INSERT INTO catalog_node (
    site_id, pool_id, name, ready, cordoned, reason, capacity, allocated, vcpus, memory_gib, unhealthy, zone, rack, nvlink_domain, numa,
    cpus, profile, hugepages, checks, observed_at
)
SELECT site_id, id, type_slug || '-' || lpad(n::text, 4, '0'), true, false, '', 8, 0, 192, 2048, 0, '', 'r' || n %% 20, '', '', '', '',
       '{}', '{}', %(until)s
FROM sample_pool, generate_series(1, %(nodes)s) n;

CREATE TEMPORARY TABLE sample_flavor ON COMMIT DROP AS
SELECT pg_temp.key(%(since)s, (p.number * 4 + p.kind) * 8 + g, 'flavor', %(seed)s) AS id, p.site_id, p.number, p.kind, p.id AS pool_id,
       p.type_slug, p.type_name, g AS gpus, g * 16 AS vcpus, g * 180 AS memory_gib
FROM sample_pool p, unnest(ARRAY[1, 8]) g;

INSERT INTO catalog_flavor (
    id, slug, name, pool_id, gpus, vcpus, memory_gib, disk_gib, price_class, whole_node, hugepages_size, hugepages_gib, exclusive_cpus,
    sysctls, profile, state, created_at
)
SELECT id, 'sample-' || lpad(number::text, 4, '0') || '.' || type_slug || '.' || gpus, type_name || ' × ' || gpus, pool_id, gpus, vcpus,
       memory_gib, 0, 'on_demand', false, '', 0, false, '[]', '', 'active', %(since)s
FROM sample_flavor;

INSERT INTO quotas_capacitystretch (id, site_id, gpu_type_id, devices, known, starts_at)
SELECT gen_random_uuid(), site_id, gpu_type_id, %(nodes)s * 8, true, %(since)s FROM sample_pool;

INSERT INTO quotas_capacitywatch (site_id, seen_at) SELECT DISTINCT site_id, %(until)s::timestamptz FROM sample_pool;

INSERT INTO metering_sitemeter (site_id, holder, cursor, last_event_at, first_proof_at, last_proof_at, watching_since)
SELECT DISTINCT site_id, '', '', %(until)s::timestamptz, %(since)s::timestamptz, %(until)s::timestamptz, %(since)s::timestamptz
FROM sample_pool;

INSERT INTO billing_ratecard (id, slug, name, currency, numbers_gone, created_at)
SELECT pg_temp.key(%(since)s, 1, 'card', %(seed)s), 'sample-standard', 'Sample prices', %(currency)s, 0, %(since)s
WHERE NOT EXISTS (SELECT 1 FROM billing_ratecard WHERE organization_id IS NULL AND currency = %(currency)s);

INSERT INTO billing_ratecardversion (id, card_id, number, valid_from, note, published_by, published_at)
SELECT pg_temp.key(%(since)s, 1, 'version', %(seed)s), id,
       1 + greatest(numbers_gone, (SELECT coalesce(max(number), 0) FROM billing_ratecardversion v WHERE v.card_id = c.id)), %(since)s,
       'Sample data', 'sample-operator', %(since)s
FROM billing_ratecard c WHERE organization_id IS NULL AND currency = %(currency)s;

INSERT INTO billing_rate (
    id, card_id, version_id, flavor_id, price_class, meter, price_micro, increment_seconds, minimum_seconds, tier_mode, surplus_percent,
    resource_name, valid_from, created_by, created_at
)
SELECT pg_temp.key(%(since)s, f.number * 1000 + f.kind * 10 + f.gpus, m.meter, %(seed)s), v.card_id, v.id, f.id, 'on_demand', m.meter,
       m.price_micro * f.kind, 1, 0, '', 100, '', %(since)s, 'sample-operator', %(since)s
FROM sample_flavor f, billing_ratecardversion v, (VALUES ('gpu_held', 600000), ('gpu_allocated', 0)) m (meter, price_micro)
WHERE v.id = pg_temp.key(%(since)s, 1, 'version', %(seed)s);
