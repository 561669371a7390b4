// The live page. Every word from the fleet becomes a text node or an attribute value, never markup.

import { Sparkline } from "/assets/charts.js";

// Columns of a point, as the feed sends them.
const [AT, DEMAND, DESIRED, SERVING, RUNNING, QUEUED, P50, P95, REQUESTS, TOKENS] = Array(10).keys();
const POINTS_KEPT = 300;
const DECISIONS_KEPT = 50;
const SILENT_AFTER_MS = 3500;
const COMING_UP = ["requested", "procuring", "pulling", "loading", "starting"];
const FINE = { completed: true, client_gone: true };
const UNKNOWN = "–";

const $ = (id) => document.getElementById(id);
const points = new Map();
const cards = new Map();
let heardAt = 0;
let seenAt = null;

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Untouched when nothing changed, so that selections and screen readers are left alone.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const number = (value) => value === null ? UNKNOWN : (Math.abs(value) < 100 ? few : whole).format(value);
const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

function span(seconds) {
  if (seconds === null) return UNKNOWN;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;

// The last known value of the newest few seconds: a second in which no request ended is not a missing answer.
function latest(trail, column) {
  const now = trail.length ? trail.at(-1)[AT] : 0;
  const found = trail.slice(-15).findLast((point) => point[column] !== null && now - point[AT] <= 15);
  return found ? found[column] : null;
}

// A figure with its name, its unit in words and its last five minutes.
class Gauge {
  constructor(name, series, format = number) {
    this.format = format;
    this.spark = new Sparkline(name, series);
    this.value = h("dd", { class: "value" });
    this.note = h("dd", { class: "note" });
    this.peak = h("span", { class: "peak" });
    this.node = h("div", { class: "gauge" }, h("dt", {}, name), this.value, this.note,
      h("dd", { class: "spark" }, this.spark.node, this.peak));
  }

  show(value, note, trail, now) {
    say(this.value, value);
    say(this.note, note);
    const most = this.spark.draw(trail, now, this.format);
    say(this.peak, most === null ? "" : `max ${this.format(most)}`);
  }
}

class Tile {
  constructor(model, replica) {
    // The model's name stands above already.
    const short = replica.id.startsWith(`${model}-`) ? replica.id.slice(model.length + 1) : replica.id;
    this.state = h("span", { class: "state" });
    this.load = h("span", { class: "load" });
    this.bar = h("span", { class: "fill" });
    this.node = h("li", { class: "tile" }, h("b", {}, short), this.state,
      h("span", { class: "track", "aria-hidden": "true" }, this.bar), this.load);
  }

  show(replica, now) {
    const { state, in_flight: inFlight, slots, tokens } = replica;
    const since = span(Math.max(0, now - replica.since_s));
    this.node.dataset.state = COMING_UP.includes(state) ? "coming" : state;
    say(this.state, COMING_UP.includes(state) ? `${state} ${since}` : state);
    this.bar.style.width = `${slots && inFlight ? Math.min(100, (100 * inFlight) / slots) : 0}%`;
    say(this.load, slots ? `${inFlight ?? UNKNOWN} / ${slots}` : `${inFlight ?? UNKNOWN} in flight`);
    const facts = [replica.id, `${state} for ${since}`, replica.address ?? "no address yet",
      `${inFlight ?? UNKNOWN} of ${slots} slots in use`, `${number(tokens)} tokens in flight`, replica.detail];
    this.node.title = facts.filter(Boolean).join("\n");
  }
}

class Card {
  constructor(id, index) {
    this.id = id;
    this.tiles = new Map();
    this.count = h("p", { class: "count" });
    this.reason = h("p", { class: "reason" });
    this.held = h("span", { class: "held" });
    this.because = document.createTextNode("");
    this.reason.append(this.because, this.held);
    this.notice = h("p", { class: "notice", role: "status" });
    this.replicas = h("ul", { class: "tiles", "aria-label": `Replicas of ${id}` });
    this.none = h("p", { class: "quiet" });
    this.demand = new Gauge("Demand", [{ column: DEMAND, className: "blue", area: true }]);
    this.running = new Gauge("Replicas", [{ column: SERVING, className: "green", area: true, step: true },
      { column: DESIRED, className: "dashed", step: true }]);
    this.queue = new Gauge("Queue", [{ column: QUEUED, className: "amber", area: true }]);
    this.ttft = new Gauge("Time to first token", [{ column: P95, className: "violet", area: true },
      { column: P50, className: "violet thin" }], span);
    const gauges = [this.demand, this.running, this.queue, this.ttft].map((gauge) => gauge.node);
    this.node = h("section", { class: "card", "aria-labelledby": `model-${index}` },
      h("div", { class: "head" }, h("h2", { id: `model-${index}` }, id), this.count, this.reason),
      this.notice, this.replicas, this.none, h("dl", { class: "gauges" }, ...gauges));
  }

  show(model, now) {
    const serving = model.replicas.filter((replica) => replica.state === "serving").length;
    say(this.count, `${serving} serving, ${model.desired} desired`);
    this.count.dataset.met = serving >= model.desired;
    if (this.because.data !== model.because) this.because.data = model.because;
    say(this.held, model.held_by ? `held by ${model.held_by}` : "");
    this.held.hidden = !model.held_by;
    this.showNotice(model, now);
    this.showReplicas(model, now);
    this.showGauges(model, serving, now);
  }

  showNotice(model, now) {
    const failure = model.last_failure;
    const isRecent = failure && now - failure.at_s < 300;
    const told = [];
    if (!model.can_serve) told.push(`Cannot serve: ${model.notice ?? "no reason given"}`);
    if (isRecent) told.push(`${clock(failure.at_s)} ${failure.replica_id} failed: ${failure.detail || "no reason given"}`);
    say(this.notice, told.join("\n"));
    this.notice.hidden = !told.length;
  }

  showReplicas(model, now) {
    const wanted = new Set(model.replicas.map((replica) => replica.id));
    for (const [id, tile] of this.tiles) if (!wanted.has(id)) { tile.node.remove(); this.tiles.delete(id); }
    for (const replica of model.replicas) {
      if (!this.tiles.has(replica.id)) this.tiles.set(replica.id, new Tile(this.id, replica));
      const tile = this.tiles.get(replica.id);
      if (!tile.node.isConnected) this.replicas.append(tile.node);
      tile.show(replica, now);
    }
    this.none.hidden = wanted.size > 0;
    say(this.none, `No replica, none paid for.${model.can_serve ? " The first request starts one." : ""}`);
  }

  showGauges(model, serving, now) {
    const trail = points.get(model.id) ?? [];
    const rates = `${number(latest(trail, REQUESTS))} requests/s, ${number(latest(trail, TOKENS))} tokens/s`;
    this.demand.show(number(model.in_flight + model.queue.requests), rates, trail, now);
    const limits = `of ${model.desired} desired; ${model.min_replicas} to ${model.max_replicas} allowed`;
    this.running.show(number(serving), limits, trail, now);
    const waits = model.queue.requests ? `oldest waits ${span(model.queue.oldest_wait_s)}` : "nobody waits";
    this.queue.show(number(model.queue.requests), waits, trail, now);
    this.ttft.show(span(latest(trail, P50)), `median; 95th percentile ${span(latest(trail, P95))}`, trail, now);
  }
}

function showFleet(page) {
  const now = seenAt = page.at_s;
  const ids = new Set(page.models.map((model) => model.id));
  for (const [id, card] of cards) if (!ids.has(id)) { card.node.remove(); cards.delete(id); points.delete(id); }
  for (const [index, model] of page.models.entries()) {
    if (!cards.has(model.id)) {
      cards.set(model.id, new Card(model.id, `${index}-${cards.size}`));
      $("models").append(cards.get(model.id).node);
    }
    cards.get(model.id).show(model, now);
  }
  showSummary(page);
  showWarnings(page);
  showOutcomes(page.outcomes ?? {});
}

function showFacts(list, facts) {
  while (list.children.length > facts.length) list.lastChild.remove();
  while (list.children.length < facts.length) list.append(h("div", {}, h("dt"), h("dd")));
  facts.forEach(([name, value, kind], place) => {
    const [term, text] = list.children[place].children;
    say(term, name);
    say(text, value);
    list.children[place].dataset.kind = kind ?? "";
  });
}

function showSummary(page) {
  const replicas = page.models.flatMap((model) => model.replicas);
  const sum = (of) => number(page.models.reduce((total, model) => total + of(model), 0));
  showFacts($("summary"), [
    ["serving", number(replicas.filter((replica) => replica.state === "serving").length)],
    ["coming up", number(replicas.filter((replica) => COMING_UP.includes(replica.state)).length)],
    ["in flight", sum((model) => model.in_flight)],
    ["queued", sum((model) => model.queue.requests)],
    ["gateway", page.gateway, "wide"],
  ]);
}

function showWarnings(page) {
  const leftover = page.leftover.map((replica) => `${replica.id} is ${replica.state}: its model is no longer configured`);
  const told = [...page.warnings, ...leftover];
  if (told.join("\n") !== [...$("warnings").children].map((item) => item.textContent).join("\n")) {
    $("warnings").replaceChildren(...told.map((text) => h("li", {}, text)));
  }
  $("warnings").hidden = !told.length;
}

function showOutcomes(outcomes) {
  const ended = Object.entries(outcomes).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  const words = (name) => name.replaceAll("_", " ");
  showFacts($("outcomes"), ended.map(([name, count]) => [words(name), whole.format(count), FINE[name] ? "fine" : "bad"]));
  $("unended").hidden = ended.length > 0;
}

function addDecision(decision) {
  const { before, desired, fewer, more } = decision;
  const way = desired > before ? "up" : desired < before ? "down" : "same";
  const change = way === "same" ? `stays at ${desired}` : `${before} → ${desired}`;
  const without = ({ queued }) => queued ? `${counted(queued, "request", "requests")} without a slot` : "a slot for each";
  const others = [fewer, more].filter((other) => other.replicas !== desired && other.replicas >= 0);
  const instead = others.map((other) => `With ${other.replicas}: ${without(other)}.`).join(" ");
  const held = decision.held_by ? [h("span", { class: "held" }, `held by ${decision.held_by}`)] : [];
  $("decisions").prepend(h("li", { "data-way": way },
    h("div", { class: "line" }, h("time", { datetime: new Date(decision.at_s * 1000).toISOString() }, clock(decision.at_s)),
      h("b", { class: "change" }, change), h("span", { class: "model" }, decision.model)),
    h("p", {}, decision.because, ...held), h("p", { class: "quiet" }, instead)));
  while ($("decisions").children.length > DECISIONS_KEPT) $("decisions").lastChild.remove();
  $("undecided").hidden = true;
}

function showOpening(opening) {
  points.clear();
  for (const [id, trail] of Object.entries(opening.points)) points.set(id, trail);
  $("decisions").replaceChildren();
  $("undecided").hidden = opening.decisions.length > 0;
  opening.decisions.forEach(addDecision);
}

function addPoints(newest) {
  for (const [id, point] of Object.entries(newest)) points.set(id, [...(points.get(id) ?? []), point].slice(-POINTS_KEPT));
}

function showLink() {
  const isLive = heardAt > 0 && performance.now() - heardAt < SILENT_AFTER_MS;
  const state = isLive ? "live" : seenAt === null ? "waiting" : "lost";
  $("link").dataset.link = document.body.dataset.link = state;
  say($("link"), { live: "live", waiting: "connecting", lost: "connection lost" }[state]);
  say($("lost"), state === "lost" ? `Connection lost. This is how it was at ${clock(seenAt)}; trying again.` : "");
  $("lost").hidden = state !== "lost";
}

function listen() {
  const feed = new EventSource("/feed");
  const on = (event, act) => feed.addEventListener(event, (message) => {
    heardAt = performance.now();
    act(JSON.parse(message.data));
    showLink();
  });
  on("opening", showOpening);
  on("points", addPoints);
  on("fleet", showFleet);
  on("decision", addDecision);
  // The browser itself reconnects after a cut, but not after a refusal (too many pages, a proxy's error).
  feed.onerror = () => {
    if (feed.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

listen();
setInterval(showLink, 500);
