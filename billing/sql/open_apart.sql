-- Holders are told apart. open_rows.sql comes before it.
, open_part AS NOT MATERIALIZED (SELECT * FROM open_row)
