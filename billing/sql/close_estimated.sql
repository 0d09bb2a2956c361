-- Days on which a meter saw nothing for a while (a gap), or on which it had not yet said everything (late).
-- Parameters: sites, days.
UPDATE close_cell c SET estimated = true
FROM workspaces_workspace w, unnest(%(sites)s::uuid[], %(days)s::date[]) AS g (site, day)
WHERE w.id = c.workspace AND w.site_id = g.site AND c.day = g.day
