-- Before each batch: what the one before it worked with.
TRUNCATE close_cell, close_line, close_invoice, close_account, close_share
