-- The tables, as an ordered list of small steps: step k brings a store from version k to k + 1. A step that has shipped
-- is never edited; a change is a new step at the end. Steps are apart by a blank line; CALL is a function that rewrites
-- data. Prices and amounts are whole numbers of the currency's smallest unit, times are seconds since 1970, plain
-- data is JSON text.

-- Runs and their questions.
CREATE TABLE runs (id INTEGER PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, finished REAL, questions
  INTEGER NOT NULL, settings TEXT NOT NULL);
CREATE TABLE questions (run INTEGER NOT NULL REFERENCES runs, position INTEGER NOT NULL, id TEXT NOT NULL, prompt
  TEXT NOT NULL, form INTEGER NOT NULL, answer TEXT NOT NULL, gold TEXT, level TEXT NOT NULL, options INTEGER,
  PRIMARY KEY (run, position), UNIQUE (run, id))

-- A trace points at its launch. Texts stand apart: counting votes reads no gigabytes.
CREATE TABLE launches (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, held INTEGER NOT
  NULL, PRIMARY KEY (run, question, number)) WITHOUT ROWID;
CREATE TABLE traces (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, answer TEXT, finish
  TEXT NOT NULL, tokens INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, mean REAL, tail REAL, lowest REAL, bottom
  REAL, measured INTEGER, error TEXT, endpoint INTEGER NOT NULL, seconds REAL NOT NULL, tries INTEGER NOT NULL,
  PRIMARY KEY (run, question, number), FOREIGN KEY (run, question, number) REFERENCES launches) WITHOUT ROWID;
CREATE TABLE texts (run INTEGER NOT NULL, question INTEGER NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (run, question, number))

-- Plain data of runs, by name.
CREATE TABLE states (run INTEGER NOT NULL REFERENCES runs, name TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY
  (run, name));
CREATE TABLE plans (name TEXT PRIMARY KEY, created REAL NOT NULL, data TEXT NOT NULL)

-- A gateway's ledger: what was held for each upstream request before it was sent, and what it cost. A row without
-- `spent` was in flight when the gateway died. Keys are there as hashes alone.
CREATE TABLE ledger (id INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, kind TEXT
  NOT NULL, unit TEXT NOT NULL, traces INTEGER NOT NULL, held INTEGER NOT NULL, spent INTEGER, delivered INTEGER,
  tokens INTEGER, prompt_tokens INTEGER);
CREATE TABLE api_keys (name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, created REAL NOT NULL, budget INTEGER,
  admin INTEGER NOT NULL, revoked REAL)

-- Plans are files; nothing ever wrote this table.
DROP TABLE plans

-- `wasted`: tries that were charged and came to nothing; `answered`: when an answer was handed out.
ALTER TABLE traces ADD COLUMN wasted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE questions ADD COLUMN answered REAL

-- Of a ledger row's traces: whose tokens no server told, and of which one claimed more than it was asked for.
ALTER TABLE ledger ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN claimed_more INTEGER NOT NULL DEFAULT 0

-- The unit of a key's budget; keys of before have budgets in whichever unit the gateway counts.
ALTER TABLE api_keys ADD COLUMN unit TEXT

-- A digest of what a run asks and how: the same command again goes on with it. Older runs have none.
ALTER TABLE runs ADD COLUMN identity TEXT

-- Gateways that share a ledger, each with the entries that it answers for, and the sums that limits apply to.
-- `beat` goes up while a replica lives; `share` is what it has taken of the common plan. A balance is of all keys
-- (`total`), of one, or of one window of time.
CREATE TABLE replicas (id INTEGER PRIMARY KEY, name TEXT NOT NULL, started REAL NOT NULL, beat INTEGER NOT NULL,
  settings TEXT NOT NULL, share TEXT NOT NULL, ended REAL);
CREATE TABLE balances (name TEXT PRIMARY KEY, spent INTEGER NOT NULL, held INTEGER NOT NULL);
ALTER TABLE ledger ADD COLUMN replica INTEGER;
ALTER TABLE ledger ADD COLUMN rate_window TEXT;
CREATE INDEX open_entries ON ledger (replica) WHERE spent IS NULL AND replica IS NOT NULL

-- Which of a run's models gave a trace, by its index among them.
ALTER TABLE traces ADD COLUMN model INTEGER NOT NULL DEFAULT 0

-- Jobs of a run: written before anything of them is sent. `lines` are their requests, as JSON.
CREATE TABLE batch_jobs (run INTEGER NOT NULL REFERENCES runs, key TEXT NOT NULL, number INTEGER NOT NULL,
  endpoint TEXT NOT NULL, lines TEXT NOT NULL, created REAL NOT NULL, wave INTEGER NOT NULL, file TEXT, job TEXT,
  PRIMARY KEY (run, key))

-- Processes that share a run, and its requests: one without a worker is free, one without a reply is under way.
CREATE TABLE workers (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, name TEXT NOT NULL, width INTEGER NOT NULL,
  beat INTEGER NOT NULL);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, request TEXT NOT NULL, worker INTEGER, reply
  TEXT);
CREATE INDEX tasks_of_runs ON tasks (run, worker)

-- Prompt tokens that the server had in its cache, which may cost less.
ALTER TABLE traces ADD COLUMN cached INTEGER NOT NULL DEFAULT 0

-- What a trace might have said at the token that decides its answer, as JSON; most traces have none.
ALTER TABLE traces ADD COLUMN soft TEXT

-- What a trace cost, where the models of its run have different prices; and which of them a batch job asks.
ALTER TABLE traces ADD COLUMN cost INTEGER;
ALTER TABLE batch_jobs ADD COLUMN model TEXT NOT NULL DEFAULT '';
CALL costs_of_traces

CALL specs_of_runs

-- What else a key is held to: requests per minute, an end, and patterns of models (a JSON list).
ALTER TABLE api_keys ADD COLUMN rpm INTEGER;
ALTER TABLE api_keys ADD COLUMN expires REAL;
ALTER TABLE api_keys ADD COLUMN models TEXT

-- What tells the traces of a question from all others, and which run paid for a trace first.
ALTER TABLE questions ADD COLUMN instruction TEXT;
ALTER TABLE questions ADD COLUMN key TEXT;
ALTER TABLE traces ADD COLUMN reused INTEGER;
CREATE INDEX questions_by_key ON questions (key) WHERE key IS NOT NULL;
CALL keys_of_questions

-- An answer as its trace wrote it, where that is not its canonical form.
ALTER TABLE traces ADD COLUMN spelling TEXT

-- A key's budget may be one per day, week or month; a row of the ledger counts in those of its day, by its number
-- since 1970, in UTC. Rows of before count by their time.
ALTER TABLE api_keys ADD COLUMN budget_window TEXT;
ALTER TABLE ledger ADD COLUMN day INTEGER

-- Traces that requests of a gateway's keys have paid for, as JSON, by a digest of what was asked.
CREATE TABLE paid_traces (key TEXT NOT NULL, question TEXT NOT NULL, number INTEGER NOT NULL, trace TEXT NOT NULL,
  PRIMARY KEY (key, question, number))

-- Of a trace that was cancelled, what it counts as in thousandths of one; how many of a ledger row's were.
ALTER TABLE traces ADD COLUMN part INTEGER;
ALTER TABLE ledger ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0
