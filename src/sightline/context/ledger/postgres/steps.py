"""A ledger's tables in PostgreSQL, and the numbered steps that made them so.

All are in the schema `sightline`. `MIGRATIONS[n]` brings format n to n+1, in one transaction, and
is never edited once released. Every row has a tenant, which leads every key; row-level security,
forced on the owner of the tables too, shows and takes rows of the transaction's tenant alone.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

from sightline.errors import LedgerUnusable

# Once a transaction ends its tenant is '' and not null: that is nobody's either.
_TENANT: Final = (
    "tenant text NOT NULL DEFAULT current_setting('sightline.tenant') CHECK (tenant <> '')"
)

# Of `sessions` only what never changes has an index, and half a page is free: an append then
# changes the row in its page, and no index with it (PostgreSQL's heap-only tuples).
_TABLES: Final = f"""
CREATE TABLE sessions (
    id bigint NOT NULL, uuid text NOT NULL, name text COLLATE "C" NOT NULL, project text NOT NULL,
    created_at text COLLATE "C" NOT NULL, updated_at text COLLATE "C" NOT NULL,
    activity bigint NOT NULL, scratchpad text NOT NULL, context_size bigint NOT NULL,
    context_slack bigint NOT NULL, next_seq bigint NOT NULL, next_group bigint NOT NULL,
    live_groups bigint NOT NULL, tokens bigint NOT NULL, largest bigint NOT NULL,
    cloned_from text, head bytea NOT NULL, tally bytea NOT NULL, digest bytea NOT NULL,
    first_group bigint, parent text, title text, kind text, epoch bigint NOT NULL DEFAULT 0,
    {_TENANT}, PRIMARY KEY (tenant, id), UNIQUE (tenant, uuid)
) WITH (fillfactor = 50);
CREATE INDEX sessions_by_name ON sessions (tenant, name);
CREATE TABLE groups (
    id bigint NOT NULL, session_id bigint NOT NULL, seq bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('live', 'dropped', 'undone', 'removed')),
    first_seq bigint NOT NULL, messages bigint NOT NULL, tokens bigint NOT NULL,
    created_at text NOT NULL, salt bytea, content_digest bytea NOT NULL, chain bytea NOT NULL,
    digest bytea NOT NULL, tokens_before bigint NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, session_id, seq)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX groups_by_id ON groups (tenant, id);
CREATE INDEX groups_by_weight ON groups (tenant, session_id, tokens_before)
    WHERE status = 'live';
CREATE TABLE messages (
    id bigint NOT NULL, session_id bigint NOT NULL, group_id bigint NOT NULL, seq bigint NOT NULL,
    role text NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content text NOT NULL, parts text, outcome text NOT NULL, dropped bigint NOT NULL,
    parsing_strategy text NOT NULL, tool_call_id text, tokens bigint NOT NULL,
    tokens_basis text NOT NULL, created_at text NOT NULL, append_key text COLLATE "C",
    digest bytea NOT NULL, usage_id bigint,
    status text GENERATED ALWAYS AS (CASE dropped WHEN 0 THEN outcome ELSE 'dropped' END) STORED,
    {_TENANT}, PRIMARY KEY (tenant, session_id, seq)
);
CREATE UNIQUE INDEX messages_by_id ON messages (tenant, id);
CREATE INDEX messages_by_key ON messages (tenant, session_id, append_key)
    WHERE append_key IS NOT NULL;
CREATE TABLE session_state (
    group_id bigint NOT NULL, session_id bigint NOT NULL, content text NOT NULL,
    created_at text NOT NULL, digest bytea NOT NULL, {_TENANT}, PRIMARY KEY (tenant, group_id)
);
CREATE INDEX session_state_in_order ON session_state (tenant, session_id, group_id);
CREATE TABLE llm_memos (
    id bigint NOT NULL, content text NOT NULL, tags text NOT NULL, created_at text NOT NULL,
    updated_at text NOT NULL, activity bigint NOT NULL, digest bytea NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, id)
);
CREATE TABLE memo_words (
    word text COLLATE "C" NOT NULL, memo_id bigint NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, word, memo_id)
);
CREATE INDEX memo_words_by_memo ON memo_words (tenant, memo_id);
CREATE TABLE memo_content_words (
    word text COLLATE "C" NOT NULL, memo_id bigint NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, word, memo_id)
);
CREATE INDEX memo_content_words_by_memo ON memo_content_words (tenant, memo_id);
CREATE TABLE usage (
    id bigint NOT NULL, session_id bigint NOT NULL, group_id bigint, model text NOT NULL,
    prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL, cost_nanousd bigint, basis text NOT NULL,
    inherited bigint NOT NULL, created_at text COLLATE "C" NOT NULL, digest bytea NOT NULL,
    cache_write_tokens bigint, cache_write_long_tokens bigint, reasoning_tokens bigint,
    cache_miss text, cache_missed_tokens bigint, address text, outcome text, error text,
    reported text, {_TENANT}, PRIMARY KEY (tenant, id)
);
CREATE INDEX usage_by_group ON usage (tenant, session_id, group_id);
CREATE TABLE receipts (
    id bigint NOT NULL, session_id bigint NOT NULL, group_id bigint, usage_id bigint,
    prefix_digest text NOT NULL, body text NOT NULL, created_at text NOT NULL,
    digest bytea NOT NULL, {_TENANT}, PRIMARY KEY (tenant, id)
);
CREATE INDEX receipts_by_session ON receipts (tenant, session_id, id);
CREATE TABLE undone (
    group_id bigint NOT NULL, session_id bigint NOT NULL, body text NOT NULL,
    created_at text NOT NULL, digest bytea NOT NULL, {_TENANT}, PRIMARY KEY (tenant, group_id)
);
CREATE INDEX undone_by_session ON undone (tenant, session_id, group_id);
CREATE TABLE strategy_states (
    group_id bigint NOT NULL, session_id bigint NOT NULL, body text NOT NULL,
    created_at text NOT NULL, digest bytea NOT NULL, {_TENANT}, PRIMARY KEY (tenant, group_id)
);
CREATE INDEX strategy_states_in_order ON strategy_states (tenant, session_id, group_id);
CREATE TABLE checkpoints (
    session_id bigint NOT NULL, namespace text COLLATE "C" NOT NULL,
    checkpoint text COLLATE "C" NOT NULL, parent text, shown text, kind text NOT NULL,
    body bytea NOT NULL, created_at text NOT NULL, digest bytea NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, session_id, namespace, checkpoint)
);
CREATE TABLE checkpoint_writes (
    session_id bigint NOT NULL, namespace text COLLATE "C" NOT NULL,
    checkpoint text COLLATE "C" NOT NULL, task text COLLATE "C" NOT NULL, number bigint NOT NULL,
    path text COLLATE "C" NOT NULL, channel text NOT NULL, kind text NOT NULL,
    body bytea NOT NULL, created_at text NOT NULL, digest bytea NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, session_id, namespace, checkpoint, task, number)
);
CREATE TABLE owners (
    session_id bigint NOT NULL, owner text NOT NULL, {_TENANT}, PRIMARY KEY (tenant, session_id)
);
CREATE TABLE open_replies (
    session_id bigint NOT NULL, group_id bigint NOT NULL, after_seq bigint NOT NULL,
    strategy text NOT NULL, text text NOT NULL, reasoning text NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, session_id)
);
CREATE TABLE open_calls (
    session_id bigint NOT NULL, group_id bigint NOT NULL, call_id text COLLATE "C" NOT NULL,
    state text NOT NULL, {_TENANT}, PRIMARY KEY (tenant, session_id, group_id, call_id)
);
CREATE TABLE calibrations (
    model text COLLATE "C" NOT NULL, body text NOT NULL, {_TENANT}, PRIMARY KEY (tenant, model)
);
CREATE TABLE trusted (
    path text COLLATE "C" NOT NULL, agreed bigint NOT NULL, created_at text NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, path)
);
CREATE TABLE exchanges (
    id bigint NOT NULL, session_id bigint NOT NULL, created_at text NOT NULL, api text NOT NULL,
    model text NOT NULL, bytes bigint NOT NULL, base bigint, depth bigint NOT NULL,
    request bytea NOT NULL, usage_id bigint, reply bytea NOT NULL, about text NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, id)
);
CREATE INDEX exchanges_in_order ON exchanges (tenant, session_id, id);
CREATE TABLE hosts (
    name text COLLATE "C" NOT NULL, until timestamptz NOT NULL,
    {_TENANT}, PRIMARY KEY (tenant, name)
);
CREATE SEQUENCE epochs;
CREATE SEQUENCE sessions_ids;
CREATE SEQUENCE groups_ids;
CREATE SEQUENCE messages_ids;
CREATE SEQUENCE llm_memos_ids;
CREATE SEQUENCE usage_ids;
CREATE SEQUENCE receipts_ids;
CREATE SEQUENCE exchanges_ids;
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'sightline' AND
        tablename <> 'format' LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenants ON %I '
            'USING (tenant = (SELECT current_setting(''sightline.tenant''))) '
            'WITH CHECK (tenant = (SELECT current_setting(''sightline.tenant'')))', name);
    END LOOP;
END $$;
"""

# What both steps that make `append` have alike: what it is given, and how it is written down to the
# messages. Released, like the steps.
_APPENDED: Final = """\
    p_tenant text, p_session bigint, p_digest bytea, p_epoch bigint, p_key text,
    s_updated_at text, s_activity bigint, s_next_seq bigint, s_next_group bigint,
    s_live_groups bigint, s_tokens bigint, s_largest bigint, s_head bytea, s_digest bytea,
    is_new boolean, g_id bigint, g_seq bigint, g_first_seq bigint, g_messages bigint,
    g_tokens bigint, g_created_at text, g_salt bytea, g_content_digest bytea, g_chain bytea,
    g_digest bytea, g_tokens_before bigint,
    m_id bigint[], m_role text[], m_content text[], m_parts text[], m_outcome text[],
    m_strategy text, m_tool_call_id text[], m_tokens bigint[], m_basis text[], m_created_at text,
    m_digest bytea[]"""
_WRITE_APPENDED: Final = """\
    UPDATE sightline.sessions SET updated_at = s_updated_at, activity = s_activity,
        next_seq = s_next_seq, next_group = s_next_group, live_groups = s_live_groups,
        tokens = s_tokens, largest = s_largest, head = s_head, digest = s_digest
        WHERE id = p_session AND digest = p_digest AND (p_epoch IS NULL OR epoch = p_epoch)
        AND (p_key IS NULL OR NOT EXISTS (
            SELECT 1 FROM sightline.messages WHERE session_id = p_session AND append_key = p_key
        ));
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF is_new THEN
        INSERT INTO sightline.groups (id, session_id, seq, status, first_seq, messages, tokens,
            created_at, salt, content_digest, chain, digest, tokens_before)
        VALUES (g_id, p_session, g_seq, 'live', g_first_seq, g_messages, g_tokens,
            g_created_at, g_salt, g_content_digest, g_chain, g_digest, g_tokens_before);
    ELSE
        UPDATE sightline.groups SET messages = g_messages, tokens = g_tokens,
            content_digest = g_content_digest, chain = g_chain, digest = g_digest
            WHERE session_id = p_session AND seq = g_seq;
    END IF;
    INSERT INTO sightline.messages (id, session_id, group_id, seq, role, content, parts, outcome,
        dropped, parsing_strategy, tool_call_id, tokens, tokens_basis, created_at, append_key,
        digest)"""

# An append by the host that wrote to the session last: what it knows of its end is checked where it
# is changed. False, and nothing is done, where the session is another by now, is another host's, or
# has the key. The tenant is set in a
# statement of its own: inside another one it would come too late.
_APPEND: Final = f"""
CREATE FUNCTION still_is(p_session bigint, p_digest bytea, p_epoch bigint, p_key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM sightline.sessions WHERE id = p_session AND digest = p_digest
        AND (p_epoch IS NULL OR epoch = p_epoch) FOR UPDATE;
    IF NOT FOUND OR (p_key IS NOT NULL AND EXISTS (
        SELECT 1 FROM sightline.messages WHERE session_id = p_session AND append_key = p_key
    )) THEN
        RAISE EXCEPTION 'the session is another by now' USING ERRCODE = 'SL001';
    END IF;
END $$;
CREATE FUNCTION fence(p_session bigint, p_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM sightline.sessions WHERE id = p_session AND epoch = p_epoch) THEN
        RAISE EXCEPTION 'the session is held by another host' USING ERRCODE = 'SL002';
    END IF;
END $$;
CREATE FUNCTION append(
{_APPENDED}
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('sightline.tenant', p_tenant, true),
        set_config('synchronous_commit', 'on', true);
{_WRITE_APPENDED}
    SELECT m.id, p_session, g_id, s_next_seq - cardinality(m_id) + m.place - 1, m.role, m.content,
        m.parts, m.outcome, 0, m_strategy, m.tool_call_id, m.tokens, m.basis, m_created_at, p_key,
        m.digest
    FROM unnest(m_id, m_role, m_content, m_parts, m_outcome, m_tool_call_id, m_tokens, m_basis,
        m_digest) WITH ORDINALITY
        AS m (id, role, content, parts, outcome, tool_call_id, tokens, basis, digest, place);
    DELETE FROM sightline.open_replies WHERE session_id = p_session;
    RETURN true;
END $$;
"""

# The tenant last: until the server has counted rows, an index that begins with it seems as good to
# find a session by its number as the one of numbers, and every append would look at all sessions.
_INDEXES: Final = """
DROP INDEX sessions_by_name;
CREATE INDEX sessions_by_name ON sessions (name, tenant);
ALTER TABLE sessions DROP CONSTRAINT sessions_tenant_uuid_key, ADD UNIQUE (uuid, tenant);
"""

# An append for less of the server's time. A constraint's expression is read from its text for every
# statement, a policy's with the plan, once: so the policy says what the tenant's constraint said.
# Which roles and statuses there are nothing in these two tables says any more, but the program
# that writes them. A subquery is a plan of its own in each statement, a setting that is read for
# each row is not, and an assignment is no statement. Each array unnested is a table in memory.
_LIGHTER: Final = f"""
ALTER TABLE sessions DROP CONSTRAINT sessions_tenant_check;
ALTER TABLE groups DROP CONSTRAINT groups_tenant_check, DROP CONSTRAINT groups_status_check;
ALTER TABLE messages DROP CONSTRAINT messages_tenant_check, DROP CONSTRAINT messages_role_check;
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'sightline' AND
        tablename <> 'format' LOOP
        EXECUTE format('ALTER POLICY tenants ON %I '
            'USING (tenant = current_setting(''sightline.tenant'')) '
            'WITH CHECK (tenant = current_setting(''sightline.tenant'') AND tenant <> '''')', name);
    END LOOP;
END $$;
CREATE OR REPLACE FUNCTION append(
{_APPENDED}
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    setting text := set_config('sightline.tenant', p_tenant, true);
BEGIN
    IF current_setting('synchronous_commit') <> 'on' THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
{_WRITE_APPENDED}
    SELECT m.id, p_session, g_id, s_next_seq - cardinality(m_id) + m.place - 1, m_role[m.place],
        m_content[m.place], m_parts[m.place], m_outcome[m.place], 0, m_strategy,
        m_tool_call_id[m.place], m_tokens[m.place], m_basis[m.place], m_created_at, p_key,
        m_digest[m.place]
    FROM unnest(m_id) WITH ORDINALITY AS m (id, place);
    DELETE FROM sightline.open_replies WHERE session_id = p_session;
    RETURN true;
END $$;
"""

# The bytes as they are: what is in images and archives is packed already.
_ATTACHMENTS: Final = f"""
CREATE TABLE attachments (
    session_id bigint NOT NULL, sha256 text COLLATE "C" NOT NULL, size bigint NOT NULL,
    data bytea NOT NULL, {_TENANT}, PRIMARY KEY (tenant, session_id, sha256)
);
ALTER TABLE attachments ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
ALTER TABLE attachments FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON attachments
    USING (tenant = current_setting('sightline.tenant'))
    WITH CHECK (tenant = current_setting('sightline.tenant') AND tenant <> '');
"""

# Consent is in a file of the user's own: a ledger can be a stranger's.
_UNTRUST: Final = "DROP TABLE trusted;"

MIGRATIONS: Final = (_TABLES, _APPEND, _INDEXES, _LIGHTER, _ATTACHMENTS, _UNTRUST)
FORMAT: Final = len(MIGRATIONS)
# The tables whose rows have a number that is given once.
NUMBERED: Final = ("sessions", "groups", "messages", "llm_memos", "usage", "receipts", "exchanges")
# What tells two rows of a table apart, where one may be put in place of the other.
KEYS: Final = {
    "owners": ("session_id",),
    "open_replies": ("session_id",),
    "open_calls": ("session_id", "group_id", "call_id"),
    "calibrations": ("model",),
}
_LOCK: Final = 0x5347_4C4E  # "SGLN", a number of our own among the database's advisory locks


def check_role(connection: psycopg.Connection[Any], name: str) -> None:
    """Raise `LedgerUnusable` for a role that row-level security does not bind."""
    unbound = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    if connection.execute(unbound).fetchone() == (True,):
        raise LedgerUnusable(
            f"{name}: this role sees the rows of every tenant; connect as one that is no "
            "superuser and has no BYPASSRLS"
        )


def migrate(connection: psycopg.Connection[Any], name: str, *, upto: int = FORMAT) -> None:
    """Bring a database to the current format, one transaction for each step.

    Raise `LedgerUnusable` for one of a newer format.
    """
    while (version := format_of(connection, name)) < upto:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if format_of(connection, name) != version:
                continue  # another host was quicker
            if not version:
                connection.execute("CREATE SCHEMA IF NOT EXISTS sightline")
                connection.execute("CREATE TABLE sightline.format (version bigint NOT NULL)")
                connection.execute("INSERT INTO sightline.format VALUES (0)")
            connection.execute("SET LOCAL search_path = sightline")
            connection.execute(MIGRATIONS[version])
            connection.execute("UPDATE format SET version = %s", (version + 1,))


def format_of(connection: psycopg.Connection[Any], name: str) -> int:
    """Read the number of a database's format, 0 if there is no ledger in it.

    Raise `LedgerUnusable` for a newer one.
    """
    if connection.execute("SELECT to_regclass('sightline.format')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT version FROM sightline.format").fetchone()
    version = int(row[0]) if row else 0
    if version > FORMAT:
        raise LedgerUnusable(
            f"{name} has format {version}; this version of sightline reads up to {FORMAT}"
        )
    return version
