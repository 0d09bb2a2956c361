-- One round of a site: its readings become samples, and each new sample is added to its workspace's hour. A sample that is
-- there already adds nothing, so that the statement may be repeated.
WITH told AS (
  SELECT *
  FROM jsonb_to_recordset(%(devices)s::jsonb) AS r(
    node text, device text, index text, instance text, profile text, namespace text, pod text, container text,
    utilization double precision, memory_used_mib integer, memory_free_mib integer, power_watts double precision,
    temperature smallint, energy_mj bigint, nvlink bigint, xid integer
  )
), owners AS (
  SELECT * FROM unnest(%(names)s::text[], %(workspaces)s::uuid[], %(projects)s::uuid[]) AS o(name, workspace_id, project_id)
), samples AS (
  INSERT INTO gpustats_gpusample (
    site_id, workspace_id, project_id, gpu_type_id, node, device, index, instance, profile, namespace, pod, container, at,
    seconds, utilization, memory_used_mib, memory_free_mib, power_watts, temperature, energy_mj, spent_mj, nvlink, xid
  )
  SELECT
    %(site)s, owners.workspace_id, owners.project_id, kind.gpu_type_id, told.node, told.device, told.index, told.instance,
    told.profile, told.namespace, told.pod, told.container, %(at)s, coalesce(before.seconds, 0), told.utilization,
    told.memory_used_mib, told.memory_free_mib, told.power_watts, told.temperature, told.energy_mj,
    -- a counter that fell began anew; one that rose by more than any card can take is not this one
    CASE WHEN told.energy_mj - before.energy_mj BETWEEN 0 AND before.seconds * %(most_watts)s::bigint * 1000
      THEN told.energy_mj - before.energy_mj END,
    told.nvlink, told.xid
  FROM told
  LEFT JOIN owners ON owners.name = told.namespace
  LEFT JOIN LATERAL (
    SELECT pool.gpu_type_id
    FROM catalog_node AS node
    JOIN catalog_gpupool AS pool ON pool.id = node.pool_id
    JOIN catalog_gputype AS type ON type.id = pool.gpu_type_id
    WHERE node.site_id = %(site)s AND node.name = told.node AND type.mig_profile = told.profile
    ORDER BY type.slug
    LIMIT 1
  ) AS kind ON true
  LEFT JOIN LATERAL (
    SELECT extract(epoch FROM %(at)s - sample.at)::integer AS seconds, sample.energy_mj
    FROM gpustats_gpusample AS sample
    WHERE sample.site_id = %(site)s AND sample.device = told.device AND sample.instance = told.instance
      AND sample.namespace = told.namespace AND sample.pod = told.pod
      AND sample.at < %(at)s AND sample.at >= %(at)s - %(late)s::interval
    ORDER BY sample.at DESC
    LIMIT 1
  ) AS before ON true
  ON CONFLICT DO NOTHING
  RETURNING *
), hours AS (
  INSERT INTO gpustats_gpuhour (
    workspace_id, project_id, gpu_type_id, hour, seconds, measured_seconds, busy_seconds, utilization_max, memory_mib_seconds,
    memory_max_mib, energy_mj
  )
  SELECT
    workspace_id, project_id, gpu_type_id, date_trunc('hour', at, 'UTC'), sum(seconds),
    coalesce(sum(seconds) FILTER (WHERE utilization IS NOT NULL), 0), coalesce(sum(seconds * utilization / 100), 0),
    max(utilization), coalesce(sum(seconds::bigint * memory_used_mib), 0), max(memory_used_mib), coalesce(sum(spent_mj), 0)
  FROM samples
  WHERE workspace_id IS NOT NULL AND seconds > 0
  GROUP BY workspace_id, project_id, gpu_type_id, date_trunc('hour', at, 'UTC')
  ON CONFLICT (workspace_id, gpu_type_id, hour) DO UPDATE SET
    seconds = gpustats_gpuhour.seconds + excluded.seconds,
    measured_seconds = gpustats_gpuhour.measured_seconds + excluded.measured_seconds,
    busy_seconds = gpustats_gpuhour.busy_seconds + excluded.busy_seconds,
    utilization_max = greatest(gpustats_gpuhour.utilization_max, excluded.utilization_max),
    memory_mib_seconds = gpustats_gpuhour.memory_mib_seconds + excluded.memory_mib_seconds,
    memory_max_mib = greatest(gpustats_gpuhour.memory_max_mib, excluded.memory_max_mib),
    energy_mj = gpustats_gpuhour.energy_mj + excluded.energy_mj
)
SELECT count(*) FROM samples
