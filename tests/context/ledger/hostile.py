"""SQL that tries to write, to leave the file, to see too much, to hang or to fill the memory.

Each statement stands with a pattern that its error must match.
"""

from __future__ import annotations

ONLY = "only a query"
ONE = "one statement"
NOT_READ = "cannot be read"
NO_FUNCTION = "is not available"
TIME = "took longer"
MEMORY = "MiB of memory|took longer|too big"  # whichever comes first on this machine
BIG = "too big"
SYNTAX = "syntax error"

HOSTILE: list[tuple[str, str]] = [
    # writing
    ("INSERT INTO messages (content) VALUES ('x')", ONLY),
    ("UPDATE messages SET content = ''", ONLY),
    ("DELETE FROM messages", ONLY),
    ("REPLACE INTO sessions (id) VALUES (1)", ONLY),
    ("DROP TABLE messages", ONLY),
    ("ALTER TABLE messages RENAME TO m", ONLY),
    ("CREATE TABLE t (a)", ONLY),
    ("CREATE TEMP TABLE t AS SELECT * FROM messages", ONLY),
    ("CREATE VIEW v AS SELECT * FROM messages", ONLY),
    ("CREATE TEMP VIEW messages AS SELECT 1", ONLY),
    ("CREATE TEMP TRIGGER t AFTER INSERT ON messages BEGIN SELECT 1; END", ONE),
    ("CREATE VIRTUAL TABLE v USING fts5(a)", ONLY),
    ("CREATE INDEX i ON messages (content)", ONLY),
    ("WITH x AS (SELECT 1) INSERT INTO messages (content) SELECT * FROM x", "not"),
    ("WITH x AS (SELECT 1) DELETE FROM messages", "not"),
    ("WITH x AS (SELECT 1) UPDATE messages SET content = 'x'", "not"),
    ("SELECT * FROM (DELETE FROM messages RETURNING *)", SYNTAX),
    ("REINDEX", ONLY),
    ("ANALYZE", ONLY),
    ("VACUUM", ONLY),
    # leaving the file
    ("VACUUM INTO '{out}'", ONLY),
    ("ATTACH DATABASE '{out}' AS o", ONLY),
    ("ATTACH ':memory:' AS o", ONLY),
    ("DETACH main", ONLY),
    ("SELECT load_extension('{out}')", NO_FUNCTION),
    ("SELECT readfile('/etc/passwd')", "no such function"),
    ("SELECT writefile('{out}', 'x')", "no such function"),
    ("SELECT edit('x')", "no such function"),
    ("SELECT fts3_tokenizer('simple')", NO_FUNCTION),
    (".output {out}", ONLY),
    (".shell touch {out}", ONLY),
    # pragmas and transactions
    ("PRAGMA journal_mode = DELETE", ONLY),
    ("PRAGMA writable_schema = ON", ONLY),
    ("PRAGMA query_only = OFF", ONLY),
    ("PRAGMA user_version = 99", ONLY),
    ("PRAGMA wal_checkpoint(TRUNCATE)", ONLY),
    ("SELECT * FROM pragma_table_info('messages')", NOT_READ),
    ("SELECT count(*) FROM pragma_function_list", NOT_READ),
    ("BEGIN EXCLUSIVE", ONLY),
    ("SAVEPOINT s", ONLY),
    ("ROLLBACK", ONLY),
    ("EXPLAIN SELECT * FROM messages", ONLY),
    # several statements, and hiding places
    ("SELECT 1; DROP TABLE messages", ONE),
    ("SELECT 1;\n-- harmless\nDELETE FROM messages", ONE),
    ("SELECT ';'; SELECT 2", ONE),
    ("/* SELECT */ DELETE FROM messages", ONLY),
    ("-- SELECT\nDROP TABLE messages", ONLY),
    ("/* unclosed DROP TABLE messages", ONLY),
    ("SELECT 'unclosed", "nothing closes"),
    ('SELECT "unclosed', "nothing closes"),
    ("SELECT [unclosed", "nothing closes"),
    ("SELECT 1\x00; DROP TABLE messages", "cannot have"),
    ("SELECT '\ud800'", "cannot have"),
    ("", ONLY),
    ("   ;;;  -- nothing", ONLY),
    ("SELECT ?", "bindings"),
    ("SELECT " + "NOT " * 200 + "1", "too large"),
    ("SELECT 1" + " + 1" * 9000, "characters"),
    ("SELECT " + ", ".join(["1"] * 150), "too many columns"),
    (" UNION ALL ".join(["SELECT 1"] * 40), "too many terms"),
    # seeing too much
    ("SELECT * FROM main.messages", NOT_READ),
    ("SELECT * FROM main.undone", NOT_READ),
    ("SELECT * FROM receipts", NOT_READ),
    ("SELECT * FROM ledger", NOT_READ),
    ("SELECT sql FROM sqlite_schema", NOT_READ),
    ("SELECT sql FROM sqlite_temp_schema", NOT_READ),
    ("SELECT name FROM temp.sqlite_master", NOT_READ),
    ("WITH messages AS (SELECT * FROM main.messages) SELECT * FROM messages", NOT_READ),
    ("WITH m AS (SELECT * FROM main.messages) SELECT count(*) FROM m", NOT_READ),
    ("SELECT (SELECT group_concat(content) FROM main.messages)", NOT_READ),
    ("SELECT * FROM messages NATURAL JOIN main.groups", NOT_READ),
    ("SELECT count(*) FROM main.messages", NOT_READ),
    ("SELECT * FROM dbstat", "no such"),
    ("SELECT data FROM sqlite_dbpage WHERE pgno = 1", "no such"),
    ("SELECT * FROM memo_content_words", NOT_READ),
    ("SELECT * FROM memo_words", NOT_READ),
    ("SELECT dropped FROM messages", "no such column"),
    ("SELECT salt FROM groups", "no such column"),
    ("SELECT sqlite_source_id()", NO_FUNCTION),
    # time
    (
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
        TIME,
    ),
    ("SELECT count(*) FROM messages a, messages b, messages c, messages d, messages e", TIME),
    (
        "SELECT instr(replace(printf('%900000d', 0), ' ', 'a'), "
        "replace(printf('%400000d', 1), ' ', 'a'))",
        TIME,
    ),
    # memory
    ("SELECT randomblob(1000000000)", NO_FUNCTION),
    ("SELECT zeroblob(2000000000)", NO_FUNCTION),
    ("SELECT printf('%.*c', 2000000000, 'x')", BIG),
    ("SELECT hex(printf('%1000000d', 1)), hex(hex(printf('%1000000d', 1)))", BIG),
    (
        "WITH RECURSIVE c(x) AS (SELECT 'aaaaaaaa' UNION ALL SELECT x || x FROM c) "
        "SELECT max(length(x)) FROM c",
        BIG,
    ),
    (
        "WITH RECURSIVE c(n, x) AS (SELECT 1, printf('%9000d', 1) UNION ALL "
        "SELECT n + 1, printf('%9000d', n) FROM c) SELECT x FROM c ORDER BY x DESC",
        MEMORY,
    ),
    (
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 900000) "
        "SELECT json_group_array(printf('%900d', n)) FROM c",
        MEMORY,
    ),
]
