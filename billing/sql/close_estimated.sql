-- Days of which a site's meter has not said everything yet. Gaps are marked by the rating. Parameters: sites, days, observed.
UPDATE close_cell c SET estimated = true
FROM workspaces_workspace w, unnest(%(sites)s::uuid[], %(days)s::date[]) AS g (site, day)
WHERE w.id = c.holder AND w.site_id = g.site AND c.day = g.day AND c.meter = ANY (%(observed)s)
