UPDATE close_line l SET share_count = s.shares
FROM (SELECT line, count(*) AS shares FROM close_share GROUP BY line) s
WHERE s.line = l.id
