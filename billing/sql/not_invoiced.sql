-- Where no final month is asked for. cells.sql comes before it.
, kind AS NOT MATERIALIZED (SELECT * FROM counted_kind),
cell AS NOT MATERIALIZED (SELECT * FROM counted_cell)
