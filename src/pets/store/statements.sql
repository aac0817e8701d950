-- The statements of the store, each under its name; the tables are in migrations.sql. ?1 is the run throughout. A name
-- in braces stands for a statement, or a part of one, that comes before it.

-- NEW_RUN
INSERT INTO runs (created, updated, questions, settings, identity) VALUES (?1, ?1, 0, ?2, ?3) RETURNING id
-- RUN
SELECT id, created, updated, finished, questions, settings FROM runs
-- RUNS_OF_IDENTITY
{RUN} WHERE identity = ?1 AND NOT EXISTS (SELECT 1 FROM states WHERE run = runs.id AND name = 'texts_deleted')
  ORDER BY id DESC
-- GET_RUN
{RUN} WHERE id = ?1
-- ALL_RUNS
{RUN} ORDER BY id
-- SHARED_RUN
-- Several processes worked on it, as earlier versions let them, and did not finish it.
SELECT 1 FROM runs r WHERE r.id = ?1 AND r.finished IS NULL AND (EXISTS (SELECT 1 FROM workers w WHERE w.run = r.id)
  OR EXISTS (SELECT 1 FROM tasks t WHERE t.run = r.id))
-- ANY_TRACE
SELECT 1 FROM traces LIMIT 1
-- LAST_RUN
SELECT max(id) FROM runs
-- TOUCH
UPDATE runs SET updated = ?2, finished = NULL WHERE id = ?1
-- FINISH
UPDATE runs SET updated = ?2, finished = ?2 WHERE id = ?1
-- COUNT
UPDATE runs SET questions = ?2 WHERE id = ?1
-- CHANGE
UPDATE runs SET updated = ?2, finished = NULL, settings = ?3 WHERE id = ?1
-- TOTALS
SELECT count(*) - count(part), count(answer), coalesce(sum(tokens), 0), coalesce(sum(prompt_tokens), 0),
  coalesce(sum(wasted), 0), coalesce(sum(cached), 0), count(reused), count(part), coalesce(sum(part), 0)
  FROM traces WHERE run = ?1
-- TOTALS_BY_MODEL
SELECT model, count(*) - count(error) - count(part), count(answer), sum(tokens), sum(prompt_tokens) FROM traces
  WHERE run = ?1 GROUP BY model ORDER BY model
-- OWN_COSTS
SELECT coalesce(sum(cost), 0), coalesce(sum(tokens), 0), coalesce(sum(prompt_tokens), 0), coalesce(sum(cached), 0)
  FROM traces WHERE run = ?1 AND cost IS NOT NULL

-- ADD_QUESTION
INSERT INTO questions (run, position, id, prompt, form, answer, gold, level, options, instruction, key)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
-- QUESTIONS
SELECT position, id, prompt, form, answer, gold, level, options, instruction FROM questions
  WHERE run = ?1 AND position > ?2 ORDER BY position LIMIT ?3
-- HAS_QUESTION
SELECT 1 FROM questions WHERE run = ?1 AND id = ?2
-- SET_ANSWER_TYPE
UPDATE questions SET answer = ?3 WHERE run = ?1 AND id = ?2
-- MARK_ANSWERED
UPDATE questions SET answered = ?3 WHERE run = ?1 AND id = ?2
-- ANSWERED
SELECT id FROM questions WHERE run = ?1 AND answered IS NOT NULL

-- OF_LAUNCH
WHERE run = ?1 AND number = ?3 AND question = (SELECT position FROM questions WHERE run = ?1 AND id = ?2)
-- OF_QUESTION
FROM questions WHERE run = ?1 AND id = ?2
-- ADD_LAUNCH
INSERT INTO launches SELECT run, position, ?3, ?4 {OF_QUESTION}
-- CHARGE_LAUNCH
UPDATE launches SET held = held + ?4 {OF_LAUNCH}
-- DROP_LAUNCH
DELETE FROM launches {OF_LAUNCH}
-- ADD_TRACE
INSERT INTO traces SELECT run, position, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
  ?20, ?21, ?22, ?23, ?24 {OF_QUESTION}
-- SET_ANSWER
UPDATE traces SET answer = ?4, finish = ?5, spelling = ?6 {OF_LAUNCH}
-- ADD_TEXT
INSERT INTO texts SELECT run, position, ?3, ?4 {OF_QUESTION}
-- AFTER_TEXT
t.finish, t.tokens, t.prompt_tokens, t.mean, t.tail, t.lowest, t.bottom, t.measured, t.error, t.endpoint, t.seconds,
  t.tries, t.wasted, t.model, t.cached, t.soft, t.cost, t.reused, t.spelling, t.part
  FROM traces t JOIN questions q ON q.run = t.run AND q.position = t.question
-- TRACE
SELECT t.question, q.id, t.number, t.answer, '', {AFTER_TEXT} WHERE t.run = ?1
-- TRACE_WITH_TEXT
SELECT t.question, q.id, t.number, t.answer, coalesce(x.text, ''), {AFTER_TEXT}
  LEFT JOIN texts x ON x.run = t.run AND x.question = t.question AND x.number = t.number WHERE t.run = ?1
-- PAGE
AND (t.question, t.number) > (?2, ?3) ORDER BY t.question, t.number LIMIT ?4
-- TRACES
{TRACE} {PAGE}
-- TRACES_WITH_TEXT
{TRACE_WITH_TEXT} {PAGE}

-- Traces of other runs: behind a hole, which is where a launch was cancelled, nothing is reused.
-- KEYS
SELECT id, key FROM questions WHERE run = ?1 AND key IS NOT NULL ORDER BY position
-- CACHED
SELECT q.key, q.run, q.position, q.instruction, t.number, t.endpoint, t.tokens, t.prompt_tokens, t.wasted
  FROM questions q JOIN traces t ON t.run = q.run AND t.question = q.position
  WHERE t.error IS NULL AND NOT EXISTS (SELECT 1 FROM traces h WHERE h.run = t.run AND h.question = t.question
  AND h.number < t.number AND h.finish = 'cancelled') AND t.finish <> 'cancelled' AND q.run <> ?1 AND q.key IN ({{keys}})
  ORDER BY q.key, q.run DESC, t.number
-- CACHED_TRACE
{TRACE_WITH_TEXT} AND t.question = ?2 AND t.number = ?3 AND t.error IS NULL
-- REUSED
SELECT t.reused, count(*) FROM traces t WHERE t.run = ?1 AND t.reused IS NOT NULL GROUP BY t.reused ORDER BY t.reused
-- SHARED_TRACES
SELECT count(*) FROM questions a JOIN questions b ON b.key = a.key JOIN traces t ON t.run = a.run
  AND t.question = a.position JOIN traces u ON u.run = b.run AND u.question = b.position AND u.number = t.number
  WHERE a.run = ?1 AND b.run = ?2 AND coalesce(t.reused, t.run) = coalesce(u.reused, u.run)
-- WITHOUT_TRACE
FROM launches l WHERE l.run = ?1 AND NOT EXISTS (SELECT 1 FROM traces t
  WHERE t.run = l.run AND t.question = l.question AND t.number = l.number)
-- LOST
SELECT (SELECT id FROM questions q WHERE q.run = l.run AND q.position = l.question), l.number, l.held
  {WITHOUT_TRACE} ORDER BY l.question, l.number
-- COUNT_LOST
SELECT count(*), coalesce(sum(l.held), 0) {WITHOUT_TRACE}

-- SAVE_JOB
INSERT INTO batch_jobs (run, key, number, endpoint, lines, created, wave, file, job, model) VALUES (?1, ?2,
  (SELECT count(*) FROM batch_jobs WHERE run = ?1), ?3, ?4, ?5, ?6, ?7, ?8, ?9)
  ON CONFLICT (run, key) DO UPDATE SET file = excluded.file, job = excluded.job
-- DROP_JOB
DELETE FROM batch_jobs WHERE run = ?1 AND key = ?2
-- JOBS
SELECT key, endpoint, lines, created, wave, file, job, model FROM batch_jobs WHERE run = ?1 ORDER BY number, created

-- SAVE_STATE
INSERT INTO states VALUES (?1, ?2, ?3) ON CONFLICT (run, name) DO UPDATE SET data = excluded.data
-- GET_STATE
SELECT data FROM states WHERE run = ?1 AND name = ?2

-- DELETE_PROMPTS
UPDATE questions SET prompt = ?2, form = 0, key = NULL, instruction = NULL WHERE run = ?1
-- DELETE_ERRORS
UPDATE traces SET error = ?2 WHERE run = ?1 AND error IS NOT NULL AND error <> ?3
