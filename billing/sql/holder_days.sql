-- What each of `wanted` and what nobody held cost in each slot. What `rated_sql` makes by holder comes before it.
SELECT d.holder, d.slot, a.currency, coalesce(sum(d.minor), 0)::bigint
FROM rated d
JOIN payer a ON a.project = d.project
WHERE d.holder IS NULL OR d.holder = ANY (%(wanted)s::uuid[])
GROUP BY 1, 2, 3
