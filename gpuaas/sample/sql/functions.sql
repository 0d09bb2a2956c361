-- What looks drawn by lot, from a number, what it is for, and the random seed; the same with the same three.
CREATE FUNCTION pg_temp.lot(n bigint, what text, seed bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT (hashtextextended(n || what, seed) & 9007199254740991)::float8 / 9007199254740992
$$;
-- Ids as of core/ids.py: 48 bits of Unix milliseconds, then what looks random.
CREATE FUNCTION pg_temp.key(at timestamptz, n bigint, what text, seed bigint) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex((extract(EPOCH FROM at) * 1000)::bigint), 12, '0') || '7' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid
    FROM md5(what || n || '/' || seed) h
$$;
