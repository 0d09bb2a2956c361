DROP TABLE IF EXISTS pg_temp.file_usage, pg_temp.file_rate;
CREATE TEMPORARY TABLE file_usage (
    line bigint, id text, project text, workspace text, flavor text, meter text, price_class text, quantity numeric,
    started_at timestamptz, ended_at timestamptz
) ON COMMIT DROP;
CREATE TEMPORARY TABLE file_rate (
    line bigint, flavor text, meter text, price_class text, valid_from timestamptz, valid_to timestamptz,
    price_micro numeric
) ON COMMIT DROP;
