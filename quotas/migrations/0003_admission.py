"""Admission happens in the database, in one statement of the portal (decision 0075). The rule is explained in
`quotas/admission.py`, which calls these functions."""

from django.db import migrations

HOLD = """
CREATE FUNCTION quotas_hold_on(organization uuid, project uuid, holder uuid)
RETURNS SETOF quotas_hold LANGUAGE sql STABLE AS $$
    SELECT hold.* FROM quotas_hold hold
    WHERE hold.organization_id = $1
        AND (hold.project_id IS NULL OR (hold.project_id = $2 AND hold.holder_id IS NULL) OR hold.holder_id = $3)
    ORDER BY hold.holder_id IS NOT NULL, hold.project_id IS NOT NULL, hold.id
    LIMIT 1
$$;
"""
POOLS = """
CREATE FUNCTION quotas_pools_kept(asker uuid, site uuid, moment timestamptz)
RETURNS TABLE (resource text, until timestamptz) LANGUAGE sql STABLE AS $$
    SELECT 'gpu:' || first.slug, first.valid_to
    FROM (
        SELECT DISTINCT ON (pool.id) gpu_type.slug, reserved.valid_to, project.organization_id
        FROM quotas_poolreservation reserved
        JOIN catalog_gpupool pool ON pool.id = reserved.pool_id
        JOIN catalog_gputype gpu_type ON gpu_type.id = pool.gpu_type_id
        JOIN tenants_project project ON project.id = reserved.project_id
        WHERE pool.site_id = $2 AND (reserved.valid_to IS NULL OR reserved.valid_to > $3)
        ORDER BY pool.id, reserved.valid_from
    ) first
    WHERE first.organization_id <> $1
$$;
"""
MOVE = """
CREATE FUNCTION quotas_counters_move(
    asker uuid, moment timestamptz, scopes int[], owners uuid[], resources text[], amounts bigint[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    refused jsonb;
BEGIN
    PERFORM 1 FROM unnest(scopes, owners, resources) AS asked(scope, owner, resource)
    JOIN quotas_limit counter ON counter.resource = asked.resource
        AND (counter.project_id = asked.owner OR counter.organization_id = asked.owner)
    ORDER BY asked.scope, asked.owner, asked.resource
    FOR NO KEY UPDATE OF counter;
    PERFORM 1 FROM unnest(owners, resources) AS asked(owner, resource)
    JOIN quotas_sitecapacity counter ON counter.site_id = asked.owner AND counter.resource = asked.resource
    ORDER BY asked.owner, asked.resource
    FOR NO KEY UPDATE OF counter;

    SELECT to_jsonb(first) INTO refused FROM (
        SELECT asked.scope, asked.owner, asked.resource,
            CASE WHEN counter.used IS NULL THEN 0 ELSE counter.hard END AS hard, coalesce(counter.used, 0) AS used,
            kept.resource IS NOT NULL AS kept, kept.until
        FROM unnest(scopes, owners, resources, amounts) AS asked(scope, owner, resource, amount)
        LEFT JOIN LATERAL (
            SELECT one.hard, one.used FROM quotas_limit one
            WHERE one.resource = asked.resource AND (one.project_id = asked.owner OR one.organization_id = asked.owner)
            UNION ALL
            SELECT one.hard, one.used FROM quotas_sitecapacity one
            WHERE one.site_id = asked.owner AND one.resource = asked.resource
        ) counter ON true
        LEFT JOIN LATERAL quotas_pools_kept(asker, asked.owner, moment) kept ON kept.resource = asked.resource
        WHERE kept.resource IS NOT NULL
            OR (asked.amount > 0 AND (counter.used IS NULL OR counter.hard < counter.used + asked.amount))
        ORDER BY asked.scope, asked.owner, kept.resource IS NULL, asked.resource COLLATE "C"
        LIMIT 1
    ) first;
    IF FOUND THEN
        RETURN refused;
    END IF;

    UPDATE quotas_limit counter SET used = counter.used + asked.amount
    FROM unnest(owners, resources, amounts) AS asked(owner, resource, amount)
    WHERE counter.resource = asked.resource
        AND (counter.project_id = asked.owner OR counter.organization_id = asked.owner);
    UPDATE quotas_sitecapacity counter SET used = counter.used + asked.amount
    FROM unnest(owners, resources, amounts) AS asked(owner, resource, amount)
    WHERE counter.site_id = asked.owner AND counter.resource = asked.resource;
    RETURN NULL;
END
$$;
"""
RESERVE = """
CREATE FUNCTION quotas_reserve(
    kind text, holder uuid, project uuid, organization uuid, moment timestamptz,
    ids uuid[], sites uuid[], parts text[], sizes bigint[],
    scopes int[], owners uuid[], resources text[], amounts bigint[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    refused jsonb;
    broken text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('quotas.hold/' || organization, 0));
    SELECT jsonb_build_object('hold', to_jsonb(hold)) INTO refused
    FROM quotas_hold_on(organization, project, holder) hold;
    IF NOT FOUND THEN
        INSERT INTO quotas_reservation
            (id, holder_kind, holder_id, project_id, site_id, resource, amount, state, created_at)
        SELECT part.id, kind, holder, project, part.site, part.resource, part.amount, 'held', moment
        FROM unnest(ids, sites, parts, sizes) AS part(id, site, resource, amount);
        refused := quotas_counters_move(organization, moment, scopes, owners, resources, amounts);
    END IF;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'QUOTA';
    END IF;
    RETURN NULL;
EXCEPTION
    WHEN SQLSTATE 'QUOTA' THEN
        RETURN refused;
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS broken = CONSTRAINT_NAME;
        IF broken <> 'holder_reserves_resource_once' THEN
            RAISE;
        END IF;
        RETURN '{"held": true}';
END
$$;
"""
BACKWARD = """
DROP FUNCTION quotas_reserve;
DROP FUNCTION quotas_counters_move;
DROP FUNCTION quotas_pools_kept;
DROP FUNCTION quotas_hold_on;
"""


class Migration(migrations.Migration):
    dependencies = [("quotas", "0002_history_and_reservations")]
    operations = [migrations.RunSQL(HOLD + POOLS + MOVE + RESERVE, BACKWARD)]
