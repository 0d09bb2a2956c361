-- The rated usage of a close, by holder and day. The CTEs of the rating come before it.
SELECT month, slot, project, holder, nullif(flavor, '00000000-0000-0000-0000-000000000000'), resource, meter, price_class,
       status, price_micro::bigint, surplus, coalesce(estimated, false), unit_seconds::bigint,
       CASE WHEN status = 'included' THEN 0 ELSE minor::bigint END
FROM rated
