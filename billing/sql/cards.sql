-- The part of a card that one device of a ware is, so that GPU-seconds count cards: a slice counts as its part of one. Wares are
-- flavors, and names of sites that no flavor sells.
, card AS MATERIALIZED (
    SELECT f.id AS ware, p.card_share AS share FROM catalog_flavor f JOIN catalog_gpupool p ON p.id = f.pool_id
    UNION ALL
    SELECT md5(resource_name)::uuid, max(card_share) FROM catalog_gpupool GROUP BY resource_name
)
