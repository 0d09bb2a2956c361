-- What a close works with, gone at its end. A cell is a holder's day of a line; of a month that was closed before it is
-- what usage says now, and, negated, what was invoiced so far.
-- Sorts and hashes of a batch stay in memory, in this transaction only.
SET LOCAL work_mem = '64MB';
SET LOCAL jit = off;
DROP TABLE IF EXISTS pg_temp.close_cell, pg_temp.close_line, pg_temp.close_invoice, pg_temp.close_account,
    pg_temp.close_changed, pg_temp.close_print, pg_temp.close_share;
CREATE TEMPORARY TABLE close_account (
    organization uuid PRIMARY KEY, slug text, currency text, tax_rate_bp integer, tax_label text, name text, address text,
    reference text
) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_print (month date, project uuid, fingerprint text, intervals bigint) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_changed (month date, project uuid, fingerprint text, intervals bigint) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_cell (
    charge_month date, day date, project uuid, holder uuid, flavor uuid, resource text, meter text, price_class text,
    status text, price_micro bigint, surplus boolean, estimated boolean, unit_seconds bigint, minor bigint
) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_line (
    id uuid, organization uuid, position integer, charge_month date, project uuid, cost_center text, flavor uuid,
    resource text, meter text, price_class text, status text, price_micro bigint, surplus boolean, estimated boolean,
    unit_seconds bigint, minor bigint, share_count integer, text text, corrects uuid
) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_invoice (
    id uuid, organization uuid, kind text, number text, month date, reason text, corrects uuid, subtotal bigint, tax bigint
) ON COMMIT DROP;
CREATE TEMPORARY TABLE close_share (line uuid, holder uuid, day date, unit_seconds bigint, minor bigint) ON COMMIT DROP;
