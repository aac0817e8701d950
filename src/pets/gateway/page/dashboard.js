// The dashboard: numbers and their history come as dashboard/events, a question when it is opened.
// What clients and models say is only ever set as text.
"use strict";

const TRIES_PER_REPLICA = 4;
const at = (id) => document.getElementById(id);
const view = { key: "", span: "hour" };
let unit = "traces";
let latest = null;

// -- words and numbers ---------------------------------------------------------------------------------------------

const number = (x, digits = 0) => (x == null ? "–" : Number(x).toLocaleString("en", { maximumFractionDigits: digits }));
const compact = (x) => (x == null ? "–" : Number(x).toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 }));
const dollars = (x) => "$" + (x === 0 || x >= 1000 ? number(x) : x >= 0.1 ? x.toFixed(2) : number(Number(x.toPrecision(2)), 9));
const amount = (x) => (x == null ? "–" : unit === "usd" ? dollars(x) : `${number(x)} ${unit}`);
const bareAmount = (x) => (x == null ? "–" : unit === "usd" ? dollars(x) : number(x));
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
const retries = (n) => (n === 1 ? "1 retry" : `${number(n)} retries`);
const seconds = (s) => (s == null ? "–" : s < 0.1 ? `${number(s * 1000)} ms` : s < 10 ? `${number(s, 2)} s` : s < 90 ? `${number(s)} s` : span(s));
const span = (s) => (s >= 172800 ? `${number(s / 86400, 1)} days` : s >= 5400 ? `${number(s / 3600, 1)} hours` : s >= 90 ? `${number(s / 60)} minutes` : `${number(s)} seconds`);
const percent = (share) => (share == null ? "–" : share > 0 && share < 0.001 ? "< 0.1 %" : `${number(100 * share, share < 0.1 ? 1 : 0)} %`);
const clock = (t) => new Date(1000 * t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const moment = (t) => new Date(1000 * t).toLocaleString([], { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
const certainty = (c) => (c == null ? "–" : c > 0.9995 ? "> 99.9 %" : `${(100 * c).toFixed(1)} %`);
const STOPPED = {
  policy: "sure enough", max_traces: "most traces allowed", rounds: "most rounds allowed", deadline: "out of time",
  budget: "budget used up", failed: "a trace failed", cut: "every trace was cut at its token limit", single: "one trace was asked for", fallback: "budget used up: one trace, no vote",
};
const FIRST_ANSWERS = { 4: "all alike", "3-1": "3 alike, 1 other", "2-2": "2 and 2", "2-1-1": "2 alike, 2 others", "1-1-1-1": "all different", fewer: "fewer than 4" };
const PART_CLASSES = { answer: "answer", others: "others", "no answer": "none", "not counted": "uncounted" };

// -- elements ------------------------------------------------------------------------------------------------------

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

function text(id, words) {
  if (at(id).textContent !== words) at(id).textContent = words;
}

const shownData = new Map();
// Whether the data of a place are others than those that it shows.
function changed(id, data) {
  const key = JSON.stringify([data, unit]);
  const differs = shownData.get(id) !== key;
  shownData.set(id, key);
  return differs;
}

// Rows are made anew only when they have changed, and whoever was on one of them with the keyboard stays there.
function rows(id, data, makeRow, none, columns = 0) {
  if (!changed(id, data)) return;
  const focused = at(id).contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const empty = columns ? make("tr", {}, make("td", { text: none, colspan: columns, class: "faint" })) : make("li", { text: none, class: "faint" });
  at(id).replaceChildren(...(data.length ? data.map(makeRow) : [empty]));
  if (focused) [...at(id).querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

const cell = (words, kind = "") => make("td", { text: words, class: kind });

// A bar whose parts are [class, name, value]: each is as wide as its share of all.
function bar(parts, kind = "") {
  const total = parts.reduce((sum, part) => sum + part[2], 0);
  const words = parts.map(([, name, value]) => `${name}: ${number(value, 2)}`).join(", ") || "nothing";
  const element = make("div", { class: `bar ${kind}`, role: "img", "aria-label": words, "data-total": total });
  for (const [name, label, value] of parts) {
    if (!value) continue;
    const part = make("span", { class: name, title: `${label}: ${number(value, 2)} of ${number(total, 2)}`, "data-value": value });
    part.style.width = `${(100 * value) / total}%`;
    element.append(part);
  }
  return element;
}

// Counts of a whole, each as a bar on one scale from 0 to all of them.
function shares(id, counts) {
  if (!changed(id, counts)) return;
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  at(id).dataset.total = total;
  at(id).replaceChildren(...counts.map(([name, count, note = ""]) => {
    const fill = make("span", { "data-value": count });
    fill.style.width = `${total ? (100 * count) / total : 0}%`;
    const track = make("div", { class: "track", role: "img", "aria-label": `${name}: ${plural(count, "question")}` }, fill);
    return make("div", { class: "share" }, make("span", { text: name }), track, make("b", { text: total ? `${number(count)} (${percent(count / total)})` : "0", title: note }));
  }));
}

// -- tiles, tables, lists ------------------------------------------------------------------------------------------

function showBudget(budget, now) {
  text("left", budget.left == null ? "no limit" : amount(budget.left));
  const pace = budget.per_hour > 0 ? `, ${amount(unit === "usd" ? budget.per_hour : Math.round(budget.per_hour))} per hour` : "";
  text("spent", `${amount(budget.spent)} spent${pace}${latest.replica ? ", over all replicas" : ""}`);
  if (!changed("limits", budget)) return;
  const names = { total: "in all", key: "of this key", window: "in this window" };
  at("limits").replaceChildren(...budget.limits.map((limit) => {
    const parts = [["spent", "spent", limit.spent], ["held", "held for requests under way", limit.held], ["left", "left", limit.left]];
    const refills = limit.refills_in_s == null ? null : limit.refills_in_s;
    let end = "";
    if (limit.left <= 0) end = "used up";
    else if (limit.ends_in_s != null && (refills == null || limit.ends_in_s < refills)) end = `at this pace it ends in ${span(limit.ends_in_s)} (${moment(now + limit.ends_in_s)})`;
    else if (limit.ends_in_s != null) end = "lasts until then at this pace";
    const again = refills == null ? "" : `, new every ${span(limit.seconds)}, next in ${span(refills)}`;
    const words = `${bareAmount(limit.left)} left of ${bareAmount(limit.limit)} ${names[limit.name]}${limit.held ? `, ${bareAmount(limit.held)} held` : ""}${again}`;
    return make("div", { class: "limit" }, bar(parts), make("p", { class: "small", text: end ? `${words}; ${end}.` : `${words}.` }));
  }));
}

function showTiles(d) {
  const t = d.totals;
  const all = t.answered + t.refused + t.failed + t.gone;
  text("rate", number(60 * d.requests_per_second, d.requests_per_second < 0.2 ? 1 : 0));
  text("requests", `${number(all)} since ${moment(d.started)}; ${plural(d.open, "vote")} open, ${plural(d.in_flight, "trace")} in flight`);
  const [p50, p99] = d.latency.vote;
  const quantile = (name, value) => make("span", { class: "nowrap" }, make("small", { text: `${name} ` }), seconds(value));
  at("latency").replaceChildren(quantile("p50", p50), " ", quantile("p99", p99));
  text("latency-note", d.latency.plain[0] == null ? "no plain requests" : `plain requests: p50 ${seconds(d.latency.plain[0])}, p99 ${seconds(d.latency.plain[1])}`);
  text("failed", all ? percent(t.failed / all) : "–");
  at("failed").className = t.failed ? "big bad" : "big";
  text("failed-note", `${number(t.failed)} failed (5xx), ${number(t.refused)} refused (4xx), ${plural(t.gone, "client")} gone, ${retries(t.retries)}`);
  text("mean", t.votes ? number(t.traces / t.votes, 1) : "–");
  text("mean-note", `${number(d.mean_budget, 1)} planned; ${plural(t.votes, "question")}, ${plural(t.traces, "trace")}${t.lost ? `, ${number(t.lost)} lost` : ""}`);
}

// What somebody should look at now, as [words, class].
function alertsOf(d) {
  const alerts = [];
  if (!d.ready.ledger) alerts.push(["The ledger cannot be written: requests are refused with 503 until it can.", "urgent"]);
  if (!d.ready.queue) alerts.push(["The queue is full: further questions are refused with 503.", "urgent"]);
  if (!d.ready.running) alerts.push(["The gateway is stopping.", "urgent"]);
  const servers = d.upstream.servers, ill = servers.filter((s) => s.state === "down" || (s.state === "failing" && s.failures > 1));
  if (ill.length && ill.length === servers.length) alerts.push(["No upstream server answers.", "urgent"]);
  else if (ill.length) alerts.push(["Some upstream servers give no answers.", "notice"]);
  if (d.budget.left != null && d.budget.left <= 0) alerts.push(["The budget is used up.", "urgent"]);
  if (d.drift?.alarm) alerts.push(["Questions have changed: their first answers no longer look like those that the plan was fitted on. Fit a new plan (pets fit).", "notice"]);
  return alerts;
}

function showTables(d) {
  const states = { up: "up", down: "down", failing: "failing", waiting: "asked to wait", "not asked": "not asked yet" };
  rows("servers", d.upstream.servers.map((s) => ({ ...s, retry_in_s: Math.ceil(s.retry_in_s) })), (s) => {
    const failing = s.failures ? `, ${plural(s.failures, "failure")} in a row` : "";
    const wait = s.retry_in_s > 0 ? `, next try in ${s.retry_in_s} s` : "";
    const state = make("td", {}, make("span", { class: "state", "data-state": s.state, text: states[s.state] }), failing + wait);
    return make("tr", {}, cell(s.url ?? `server ${s.server}`), cell(s.model || "any"), state, cell(s.latency_s ? seconds(s.latency_s) : "–", "number"), d.viewer.admin ? cell(number(s.in_flight), "number") : null);
  }, "none", 5);
  for (const head of document.querySelectorAll("th.admin")) head.hidden = !d.viewer.admin;
  const faults = Object.entries(d.upstream.faults).sort((a, b) => b[1] - a[1]);
  text("faults", faults.length ? `Since the start: ${faults.map(([name, count]) => `${name} ×${number(count)}`).join(", ")}.` : "");
  const more = d.keys.number > d.keys.rows.length ? ` The first ${d.keys.rows.length} of ${number(d.keys.number)} keys.` : "";
  text("keys-note", `${d.replica ? "Of all replicas, since" : "Since"} the store was made.${more}`);
  rows("keys", d.keys.rows, (key) => {
    const left = key.limit == null ? null : Math.max(0, key.limit - key.spent - key.held);
    const used = key.limit == null ? make("td", { text: "no limit", class: "faint" }) : make("td", {}, bar([["spent", "spent", key.spent], ["held", "held", key.held], ["left", "left", left]]));
    return make("tr", {}, cell(key.name), cell(bareAmount(key.spent), "number"), cell(bareAmount(key.held), "number"), cell(bareAmount(key.limit), "number"), used);
  }, "Nothing was spent yet.", 5);
  text("models-note", `${d.replica ? "Of this replica, since" : "Since"} ${moment(d.started)}${d.of_key && d.viewer.admin ? `, key ${d.of_key}` : ""}.`);
  rows("models", d.models, (m) => make("tr", {}, cell(m.model), cell(number(m.requests), "number"), cell(number(m.traces), "number"), cell(compact(m.prompt_tokens), "number"), cell(compact(m.tokens), "number"), cell(bareAmount(m.spent), "number")), "No requests yet.", 6);
  rows("errors", d.errors, (e) => make("tr", {}, cell(clock(e.at), "time"), cell(e.times > 1 ? `${e.status} ×${number(e.times)}` : String(e.status)), cell(e.reason), cell(e.model ?? "–"), cell(e.key ?? "–"), cell(seconds(e.seconds), "number"), cell(e.id)), "None.", 7);
}

function showVotes(d) {
  text("drift", d.drift == null ? "" : `${plural(d.drift.seen, "question")} compared with the plan: ${d.drift.alarm ? "they have changed" : "no change seen"}.`);
  const bins = d.certificates.map(([upper, count], i) => [i ? `${number(100 * d.certificates[i - 1][0], 1)} to ${number(100 * upper, 1)} %` : `up to ${number(100 * upper)} %`, count]);
  shares("certificates", bins.reverse());
  shares("first-answers", Object.entries(FIRST_ANSWERS).map(([name, words]) => [words, d.first_answers[name]?.questions ?? 0, d.first_answers[name] ? plural(d.first_answers[name].traces, "trace") : ""]));
  rows("questions", d.questions, questionRow, "No question was voted on yet.");
}

const countsOf = (q) => q.parts.map(([, name, votes]) => `${name.length > 24 ? name.slice(0, 23) + "…" : name} ×${number(votes, 2)}`).join(", ");
const voteBar = (q) => bar(q.parts.map(([kind, name, votes]) => [PART_CLASSES[kind], name, votes]), "votes");

function questionRow(q) {
  const link = make("a", { href: `#${q.id}`, text: q.question || `request ${q.id}` });
  const answer = make("span", { class: "answer-text", text: q.answer ?? "no answer" });
  const facts = [clock(q.at), q.model, latest.viewer.admin && q.key !== "anybody" ? q.key : null, plural(q.traces, "trace"), seconds(q.seconds), unit === "traces" ? null : amount(q.spent), q.certificate == null ? null : `${certainty(q.certificate)} certain`, q.stopped === "policy" ? null : STOPPED[q.stopped], q.retries ? retries(q.retries) : null];
  return make("li", {}, make("div", { class: "head" }, link, answer), voteBar(q), make("div", { class: "small", text: countsOf(q) }), make("div", { class: "small", text: facts.filter(Boolean).join(" · ") }));
}

// -- one question --------------------------------------------------------------------------------------------------

// Behind a balancer, a question may be asked for at a replica that has not answered it: others are tried.
async function fetchQuestion(id) {
  let tries = TRIES_PER_REPLICA * ((latest?.replica?.replicas ?? 1) - 1);
  let reply;
  do reply = await fetch(`dashboard/questions/${encodeURIComponent(id)}`);
  while (reply.status === 404 && tries-- > 0);
  return reply;
}

async function openQuestion() {
  const id = location.hash.slice(1), dialog = at("question");
  if (!id) {
    if (dialog.open) dialog.close();
    return;
  }
  at("question-title").textContent = "Question";
  at("question-body").replaceChildren(make("p", { class: "faint", text: "loading" }));
  if (!dialog.open) dialog.showModal();
  try {
    const reply = await fetchQuestion(id);
    const body = await reply.json();
    if (location.hash.slice(1) !== id) return;
    if (reply.ok) showQuestion(body);
    else at("question-body").replaceChildren(make("p", { text: body.error.message }));
  } catch {
    at("question-body").replaceChildren(make("p", { text: "The gateway cannot be reached." }));
  }
}

function showQuestion(q) {
  at("question-title").textContent = q.answer == null ? "No answer" : `Answer: ${q.answer}`;
  const facts = {
    Certainty: certainty(q.certificate), Traces: number(q.traces), Latency: seconds(q.seconds), "Of it upstream": seconds(q.upstream_seconds),
    Cost: amount(q.spent), "Output tokens": number(q.tokens), "Prompt tokens": number(q.prompt_tokens), Ended: STOPPED[q.stopped],
    Retries: number(q.retries), Model: q.model, Key: q.key, Time: moment(q.at), Request: q.id,
  };
  const list = make("dl", { class: "facts" }, ...Object.entries(facts).map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))));
  const counted = q.answers.reduce((sum, [, votes]) => sum + votes, 0);
  const table = make("table", { id: "answers" }, make("thead", {}, make("tr", {}, make("th", { text: "Answer", scope: "col" }), make("th", { text: q.weighted ? "Weight" : "Votes", scope: "col", class: "number" }), make("th", { text: "Share", scope: "col", class: "number" }))),
    make("tbody", {}, ...q.answers.map(([answer, votes]) => make("tr", {}, cell(answer), cell(number(votes, 2), "number"), cell(percent(votes / counted), "number")))));
  const message = q.message ? [make("h3", { text: q.messages > 1 ? `Last user message of ${q.messages} messages` : "Message" }), make("pre", { text: q.message, tabindex: "0" })] : [];
  at("question-body").replaceChildren(...message, list, make("h3", { text: "Votes" }), voteBar(q), make("p", { class: "small", text: countsOf(q) }), q.answers.length ? table : make("p", { class: "faint", text: "No trace had an answer." }), make("h3", { text: "Traces" }), ...q.trace_list.map(traceRow));
}

function traceRow(t) {
  const facts = [t.error ? `failed: ${t.error}` : t.finish, plural(t.tokens, "token"), seconds(t.seconds), t.server == null ? null : `server ${t.server}`, t.tries > 1 ? `${t.tries} tries` : null];
  const summary = make("summary", {}, `${t.number}: `, make("b", { text: t.answer ?? "no answer" }), make("span", { class: "faint", text: ` · ${facts.filter(Boolean).join(" · ")}` }));
  return make("details", {}, summary, make("pre", { text: t.text || "no text is kept", tabindex: "0" }));
}

// -- charts --------------------------------------------------------------------------------------------------------

const OUTCOMES = [["answered", "answered", "blue"], ["refused", "refused (4xx)", "orange"], ["failed", "failed (5xx)", "vermilion"], ["gone", "client gone", "grey"]];
const CHARTS = [
  { id: "requests-chart", title: "Requests", counts: true, series: OUTCOMES, format: compact },
  { id: "latency-chart", title: "Latency", lines: true, log: true, series: [["vote_p50", "votes p50", "blue"], ["vote_p99", "votes p99", "vermilion"], ["plain_p50", "plain p50", "sky", [4, 4]], ["plain_p99", "plain p99", "orange", [4, 4]]], format: seconds },
  { id: "errors-chart", title: "Errors and retries", counts: true, series: [...OUTCOMES.slice(1).reverse(), ["retries", "retries upstream", "purple"]], format: compact },
  { id: "spend-chart", title: "Spend", amounts: true, series: [["spent", "spent", "green"]], format: bareAmount },
  { id: "tokens-chart", title: "Tokens", counts: true, series: [["prompt_tokens", "prompt", "sky"], ["tokens", "output", "blue"]], format: compact },
  { id: "traces-chart", title: "Traces per question", lines: true, series: [["mean_traces", "bought", "green"], ["planned", "planned", "grey", [4, 4]]], format: (x) => number(x, 1) },
];
const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();
const charts = new Map();
let history_ = null;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function niceTop(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 2, 5, 10].find((step) => step * power >= most);
}

const powersOfTen = (u, ticks) => ticks.map((tick) => (Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-6 ? tick : null));
// Whole powers of ten around what is drawn, for a logarithmic axis.
const decades = (least, most) => (most > 0 ? [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most) + 1e-9)] : [0.01, 10]);

function drawCharts() {
  if (!history_) return;
  for (const spec of CHARTS) {
    let chart = charts.get(spec.id);
    if (!chart) charts.set(spec.id, (chart = makeChart(spec)));
    chart.update();
  }
}

// The columns of a chart as drawn: stacked ones as sums from the last on, so that what is drawn later covers less.
function drawnColumns(spec) {
  const raw = spec.series.map(([name]) => history_[name]);
  if (spec.lines) return raw;
  const sums = [];
  let below = null;
  for (const column of raw) {
    below = column.map((value, i) => (value == null ? null : value + (below?.[i] ?? 0)));
    sums.push(below.map((sum, i) => (column[i] ? sum : null))); // nothing to draw where there is none of it
  }
  return sums.reverse();
}

function makeChart(spec) {
  const legend = make("ul", { class: "legend" });
  const place = make("div", { class: "plot" });
  const title = make("h2", { id: `${spec.id}-title` });
  const figure = make("figure", { id: spec.id, tabindex: "0", role: "group", "aria-labelledby": `${spec.id}-title` }, title, legend, place);
  at("charts").append(figure);
  const values = spec.series.map(([, name, shade]) => {
    const swatch = make("i"), value = make("b");
    swatch.style.background = `var(--${shade})`;
    legend.append(make("li", {}, swatch, `${name} `, value));
    return value;
  });
  let plot = null, look = "";
  const say = (index) => {
    const perInterval = spec.lines ? "" : `, per ${history_.seconds < 60 ? `${history_.seconds} s` : `${history_.seconds / 60} min`}`;
    const when = index == null ? "" : `, ${clock(history_.start[index])}`;
    title.textContent = `${spec.title}${spec.id === "spend-chart" && unit !== "usd" ? ` in ${unit}` : ""}${perInterval}${when}`;
    spec.series.forEach(([name], i) => {
      const column = history_[name];
      const resting = spec.lines ? column.findLast((value) => value != null) : column.reduce((sum, value) => sum + (value ?? 0), 0);
      values[i].textContent = spec.format(index == null ? resting : column[index]);
      if (index == null) values[i].dataset.value = resting ?? "";
    });
  };
  const build = () => {
    plot?.destroy();
    const [ink, line] = [colour("faint"), colour("line")];
    const font = "12px system-ui, sans-serif";
    const bars = uPlot.paths.bars({ size: [0.92, 40], align: 1 });
    const drawn = spec.lines ? spec.series : [...spec.series].reverse();
    const series = drawn.map(([, name, shade, dash]) => (spec.lines
      ? { label: name, stroke: colour(shade), width: 2, dash, points: { show: !dash || name !== "planned", size: 4, fill: colour(shade) } }
      : { label: name, fill: colour(shade), width: 0, paths: bars, points: { show: false } }));
    const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, gap: 4 };
    plot = new uPlot({
      width: Math.max(200, place.clientWidth), height: 150, legend: { show: false }, padding: [8, 6, 0, 0],
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: { x: { range: () => [history_.start[0], history_.start.at(-1) + history_.seconds] }, y: spec.log ? { distr: 3, range: (u, least, most) => decades(least, most) } : { range: (u, least, most) => [0, niceTop(most)] } },
      axes: [
        { ...axis, size: 22, space: 70, values: (u, ticks) => ticks.map((t) => new Date(1000 * t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })) },
        { ...axis, size: (u, ticks) => 12 + 7 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length)), space: 30, ...(spec.counts || (spec.amounts && unit !== "usd") ? { incrs: WHOLE_STEPS } : {}), ...(spec.log ? { filter: powersOfTen, grid: { ...axis.grid, filter: powersOfTen } } : {}), values: (u, ticks) => ticks.map((tick) => (tick == null ? "" : spec.format(tick))) },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [(u) => say(u.cursor.idx ?? null)] },
    }, [history_.start, ...drawnColumns(spec)], place);
    plot.over.parentElement.querySelector("canvas").setAttribute("aria-hidden", "true");
  };
  const update = () => {
    const now = [colour("faint"), place.clientWidth, unit].join();
    if (now !== look || !plot) {
      look = now;
      build();
    } else plot.setData([history_.start, ...drawnColumns(spec)]);
    say(plot.cursor.idx ?? null);
  };
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !plot) return;
    event.preventDefault();
    const last = history_.start.length - 1, index = Math.min(last, Math.max(0, (plot.cursor.idx ?? last + (step < 0)) + step));
    plot.setCursor({ left: plot.valToPos(history_.start[index], "x"), top: 10 });
  });
  figure.addEventListener("blur", () => plot?.setCursor({ left: -10, top: -10 }));
  return { update };
}

function showHistory(columns) {
  columns.mean_traces = columns.votes.map((votes, i) => (votes ? columns.traces[i] / votes : null));
  columns.planned = columns.start.map(() => latest?.mean_budget ?? null);
  history_ = columns;
  drawCharts();
}

// -- live ----------------------------------------------------------------------------------------------------------

function show(d) {
  latest = d;
  unit = d.unit;
  const replica = d.replica ? `Replica ${d.replica.name ? `${d.replica.name}, ` : ""}1 of ${d.replica.replicas}: counts are of this one, budgets of all.` : "";
  text("scope", [d.viewer.admin ? "" : `Key ${d.viewer.name}: your own requests.`, replica].filter(Boolean).join(" "));
  at("key-choice").hidden = !d.viewer.admin || d.keys.number < 2;
  const names = d.keys.rows.map((key) => key.name).sort(), options = [...at("key").options].slice(1).map((option) => option.value);
  if (names.join("\n") !== options.join("\n")) {
    at("key").replaceChildren(make("option", { value: "", text: "all keys" }), ...names.map((name) => make("option", { value: name, text: name })));
    at("key").value = view.key;
  }
  const alerts = alertsOf(d);
  if (changed("alerts", alerts)) at("alerts").replaceChildren(...alerts.map(([words, kind]) => make("p", { text: words, class: kind })));
  showBudget(d.budget, d.at);
  showTiles(d);
  showTables(d);
  showVotes(d);
}

let source = null;
function listen() {
  source?.close();
  source = new EventSource(`dashboard/events?span=${view.span}${view.key ? `&key=${encodeURIComponent(view.key)}` : ""}`);
  const state = (name, words) => {
    at("state").dataset.state = name;
    text("state", words);
  };
  source.onmessage = (event) => {
    show(JSON.parse(event.data));
    state("live", "live");
  };
  source.addEventListener("history", (event) => showHistory(JSON.parse(event.data)));
  source.onerror = () => {
    state("lost", source.readyState === EventSource.CLOSED ? "connection ended: reload the page" : "connection lost, trying again");
  };
}

at("view").addEventListener("change", () => {
  view.key = at("key").value;
  view.span = at("span").value;
  listen();
});
at("close").addEventListener("click", () => at("question").close());
at("question").addEventListener("close", () => {
  const link = [...at("questions").querySelectorAll("a")].find((a) => a.getAttribute("href") === location.hash);
  if (location.hash) history.pushState(null, "", location.pathname + location.search);
  link?.focus(); // the list may have been made anew meanwhile
});
at("question").addEventListener("click", (event) => {
  if (event.target === at("question")) at("question").close();
});
addEventListener("hashchange", openQuestion);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
new ResizeObserver(drawCharts).observe(at("charts"));
text("zone", `Times are this browser's (${Intl.DateTimeFormat().resolvedOptions().timeZone}).`);
listen();
openQuestion();
