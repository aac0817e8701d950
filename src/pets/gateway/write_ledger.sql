-- One transaction of a gateway on a PostgreSQL that replicas share: pets.gateway.shared_store has its order of locks.
-- Rows name balances by their places in "names". "spents" and "helds" are those of "names": of a balance that is gone
-- NULL, and NULL themselves where this replica has been ended.
CREATE OR REPLACE FUNCTION pg_temp.write_ledger(
    this_replica bigint, names text[], settlements jsonb, reservations jsonb,
    OUT made bigint[], OUT spents bigint[], OUT helds bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    changed bigint[];
    item record;
    place bigint;
    fits boolean;
BEGIN
    PERFORM 1 FROM replicas WHERE id = this_replica AND ended IS NULL FOR SHARE;
    IF NOT FOUND THEN RETURN; END IF;
    made := ARRAY[]::bigint[];
    spents := array_fill(NULL::bigint, ARRAY[cardinality(names)]);
    helds := spents;
    WITH done AS (
        UPDATE ledger l SET spent = t.spent, delivered = t.delivered, tokens = t.tokens,
            prompt_tokens = t.prompt_tokens, estimated = t.estimated, claimed_more = t.claimed_more,
            cancelled = t.cancelled
        FROM jsonb_to_recordset(settlements) AS t (id bigint, spent bigint, delivered bigint, tokens bigint,
            prompt_tokens bigint, estimated bigint, claimed_more bigint, cancelled bigint)
        WHERE l.id = t.id AND l.spent IS NULL RETURNING l.id
    ) SELECT array_agg(done.id) INTO changed FROM done;
    FOR item IN SELECT b.name, b.spent, b.held FROM balances b WHERE b.name = ANY(names) ORDER BY b.name FOR UPDATE
    LOOP
        place := array_position(names, item.name);
        spents[place] := item.spent;
        helds[place] := item.held;
    END LOOP;
    FOR item IN SELECT * FROM jsonb_to_recordset(settlements) AS t (id bigint, spent bigint, held bigint, places int[])
        WHERE t.id = ANY(changed)
    LOOP
        FOREACH place IN ARRAY item.places LOOP
            spents[place] := spents[place] + item.spent;
            helds[place] := helds[place] - item.held;
        END LOOP;
    END LOOP;
    FOR item IN SELECT * FROM jsonb_to_recordset(reservations) AS t (id bigint, held bigint, places int[],
        limits bigint[])
    LOOP
        fits := true;
        FOR i IN 1 .. cardinality(item.places) LOOP
            place := item.places[i];
            fits := fits AND coalesce(spents[place] + helds[place] <= item.limits[i] - item.held, false);
        END LOOP;
        IF fits THEN
            made := made || item.id;
            FOREACH place IN ARRAY item.places LOOP
                helds[place] := helds[place] + item.held;
            END LOOP;
        END IF;
    END LOOP;
    INSERT INTO ledger (id, key, request, kind, unit, traces, held, tokens, prompt_tokens, rate_window, day, at,
        replica)
    SELECT t.*, extract(epoch FROM clock_timestamp())::double precision, this_replica
    FROM jsonb_to_recordset(reservations) AS t (id bigint, key text, request text, kind text, unit text, traces bigint,
        held bigint, tokens bigint, prompt_tokens bigint, rate_window text, day bigint)
    WHERE t.id = ANY(made);
    UPDATE balances b SET spent = t.spent, held = t.held
    FROM unnest(names, spents, helds) AS t (name, spent, held)
    WHERE b.name = t.name AND (b.spent, b.held) <> (t.spent, t.held);
END $$
