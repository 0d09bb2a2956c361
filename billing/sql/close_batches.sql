-- The work of a close by organization, in the order of their numbers: projects by month, and how many intervals they have.
SELECT o.id, c.month, array_agg(c.project ORDER BY c.project), sum(c.intervals)::bigint
FROM close_changed c
JOIN tenants_project p ON p.id = c.project
JOIN tenants_organization o ON o.id = p.organization_id
GROUP BY o.id, o.slug, c.month
ORDER BY o.slug COLLATE "C", c.month
