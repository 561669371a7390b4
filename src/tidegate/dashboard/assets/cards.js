// What the page is made of: a card for each model, with a tile for each replica and four gauges.

import { Sparkline } from "/assets/charts.js";
import { UNKNOWN, clock, h, number, say, span } from "/assets/words.js";

// Columns of a point, as the feed sends them; the first is the moment.
const [, DEMAND, DESIRED, SERVING, , QUEUED, P50, P95, REQUESTS, TOKENS] = Array(10).keys();
const RECENT_S = 15;
export const COMING_UP = ["requested", "procuring", "pulling", "loading", "starting"];

// One that is announced to go serves still, but nobody counts on it.
export const stateOf = (replica) =>
  replica.state === "serving" && replica.leaves_at_s !== null ? "leaving" : replica.state;

// The last known value of the newest few seconds: a second in which no request ended is not a missing answer.
function latest(trail, column) {
  const found = trail.findLast((point) => point[column] !== null);
  return found && trail.at(-1)[0] - found[0] <= RECENT_S ? found[column] : null;
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
  constructor(id) {
    // The model's name stands above already; the number tells its replicas apart.
    const short = id.replace(/^.*-(\d+)$/, "#$1");
    this.state = h("span", { class: "state" });
    this.load = h("span", { class: "load" });
    this.bar = h("span", { class: "fill" });
    this.variant = h("span", { class: "variant" });
    this.node = h("li", { class: "tile" }, h("b", {}, short, this.variant), this.state,
      h("span", { class: "track", "aria-hidden": "true" }, this.bar), this.load);
  }

  show(replica, now) {
    const { in_flight: inFlight, slots, tokens } = replica;
    const state = stateOf(replica);
    const since = span(Math.max(0, now - replica.since_s));
    this.node.dataset.state = COMING_UP.includes(state) ? "coming" : state;
    say(this.variant, replica.variant ? ` ${replica.variant}` : "");
    say(this.state, COMING_UP.includes(state) ? `${state} ${since}` : state);
    this.bar.style.width = `${slots && inFlight ? Math.min(100, (100 * inFlight) / slots) : 0}%`;
    say(this.load, slots ? `${inFlight ?? UNKNOWN} / ${slots}` : `${inFlight ?? UNKNOWN} in flight`);
    const place = replica.node && `${replica.gpus.length === 1 ? "GPU" : "GPUs"} ${replica.gpus.join(", ")} of ${replica.node}`;
    const leaves = state === "leaving" && `leaves in ${span(Math.max(0, replica.leaves_at_s - now))}`;
    const facts = [replica.id, replica.variant && `variant ${replica.variant}`, place, `${replica.state} for ${since}`, leaves,
      replica.address ?? "no address yet",
      `${inFlight ?? UNKNOWN} of ${slots} slots in use`, `${number(tokens)} tokens in flight`, replica.detail];
    this.node.title = facts.filter(Boolean).join("\n");
  }
}

export class Card {
  constructor(id, index) {
    this.tiles = new Map();
    this.count = h("p", { class: "count" });
    this.because = h("span");
    this.held = h("span", { class: "held" });
    this.notice = h("p", { class: "notice", role: "status" });
    this.replicas = h("ul", { class: "tiles", "aria-label": `Replicas of ${id}` });
    this.none = h("p", { class: "quiet" });
    this.demand = new Gauge("Open requests", [{ column: DEMAND, className: "blue", area: true }]);
    this.running = new Gauge("Replicas", [{ column: SERVING, className: "green", area: true, step: true },
      { column: DESIRED, className: "dashed", step: true }]);
    this.queue = new Gauge("Queue", [{ column: QUEUED, className: "amber", area: true }]);
    this.ttft = new Gauge("Time to first token", [{ column: P95, className: "violet", area: true },
      { column: P50, className: "violet thin" }], span);
    const gauges = [this.demand, this.running, this.queue, this.ttft].map((gauge) => gauge.node);
    this.node = h("section", { class: "card", "aria-labelledby": `model-${index}` },
      h("div", { class: "head" }, h("h2", { id: `model-${index}` }, id), this.count,
        h("p", { class: "reason" }, this.because, " ", this.held)),
      this.notice, this.replicas, this.none, h("dl", { class: "gauges" }, ...gauges));
  }

  show(model, trail, now) {
    const states = model.replicas.map(stateOf);
    const serving = states.filter((state) => state === "serving").length;
    const leaving = states.filter((state) => state === "leaving").length;
    say(this.count, `${serving} serving, ${leaving ? `${leaving} leaving, ` : ""}${model.desired} desired`);
    this.count.dataset.met = serving >= model.desired;
    say(this.because, model.because);
    say(this.held, model.held_by ? `held by ${model.held_by}` : "");
    this.held.hidden = !model.held_by;
    this.showNotice(model, now);
    this.showReplicas(model, now);
    this.showGauges(model, serving, trail, now);
  }

  showNotice(model, now) {
    const failure = model.last_failure;
    const isRecent = failure && now - failure.at_s < 300;
    const told = [];
    if (!model.can_serve) told.push(`Cannot serve: ${model.notice ?? "no reason given"}`);
    const spill = model.spill;
    if (spill && (spill.in_flight || spill.cost_last_h)) {
      const money = `${spill.cost_last_h.toFixed(2)} of ${spill.max_cost_per_h.toFixed(2)} within the hour`;
      told.push(`Spilling to a pay-per-token upstream: ${spill.in_flight} in flight, ${money}`);
    }
    if (isRecent) {
      told.push(`${clock(failure.at_s)} ${failure.replica_id} failed: ${failure.detail || "no reason given"}`);
      if (failure.last_words) told.push(`its engine's last words: ${failure.last_words}`);
    }
    say(this.notice, told.join("\n"));
    this.notice.hidden = !told.length;
  }

  showReplicas(model, now) {
    const wanted = new Set(model.replicas.map((replica) => replica.id));
    for (const [id, tile] of this.tiles) if (!wanted.has(id)) { tile.node.remove(); this.tiles.delete(id); }
    for (const replica of model.replicas) {
      if (!this.tiles.has(replica.id)) this.tiles.set(replica.id, new Tile(replica.id));
      const tile = this.tiles.get(replica.id);
      if (!tile.node.isConnected) this.replicas.append(tile.node);
      tile.show(replica, now);
    }
    this.none.hidden = wanted.size > 0;
    say(this.none, `No replica is running.${model.can_serve ? " The first request starts one." : ""}`);
  }

  showGauges(model, serving, trail, now) {
    const rates = `${number(latest(trail, REQUESTS))} requests/s, ${number(latest(trail, TOKENS))} tokens/s`;
    this.demand.show(number(model.in_flight + model.queue.requests), rates, trail, now);
    const limits = `of ${model.desired} desired; ${model.min_replicas} to ${model.max_replicas} allowed`;
    this.running.show(number(serving), limits, trail, now);
    const waits = model.queue.requests ? `oldest waits ${span(model.queue.oldest_wait_s)}` : "nobody waits";
    this.queue.show(number(model.queue.requests), waits, trail, now);
    this.ttft.show(span(latest(trail, P50)), `median; 95th percentile ${span(latest(trail, P95))}`, trail, now);
  }
}
