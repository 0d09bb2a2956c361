-- What was added up by pieces meets the tariff. counted_pieces.sql or kept_pieces.sql comes before it. Each sum finds one
-- stretch: pieces are
-- cut at every change of price. Who pays and what piece it is stand in each sum already: joined here, on columns of which the
-- planner knows nothing, it would take all of them for one row and read the tariff once for each.
counted AS (
    SELECT a.month, a.slot, a.project, a.holder, a.resource, a.surplus, t.id AS stretch, a.estimated, a.unit_seconds
    FROM added a
    JOIN tariff t
        ON t.key = a.key AND t.ware = a.ware AND t.meter = a.meter AND t.tier_mode <> 'graduated'
        AND t.starts_at <= a.starts_at AND t.ends_at >= a.ends_at
)
