-- Tables of a transaction have no statistics until somebody looks.
ANALYZE close_cell, close_line
