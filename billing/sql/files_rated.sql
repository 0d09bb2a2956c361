-- One row per invoice line. The CTEs of files_source.sql and lines.sql come before it.
SELECT project, flavor, meter, price_class, price_micro, unit_seconds, minor
FROM rated
ORDER BY project COLLATE "C", flavor COLLATE "C", meter COLLATE "C", price_class COLLATE "C", price_micro
