-- What a file says, as it stands there. Gone with the transaction.
SET LOCAL work_mem = '128MB';
DROP TABLE IF EXISTS pg_temp.import_usage, pg_temp.import_key, pg_temp.import_told;
CREATE TEMPORARY TABLE import_usage (
    line bigint, id text, project text, workspace text, flavor text, meter text, price_class text, quantity numeric,
    started_at timestamptz, ended_at timestamptz
) ON COMMIT DROP;
