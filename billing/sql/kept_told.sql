),
-- The same where holders are told apart: of each there is little to add up before it meets the tariff.
added AS NOT MATERIALIZED (SELECT * FROM used)
