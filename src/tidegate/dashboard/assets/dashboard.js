// The live page: what the feed tells is shown. Every word from the fleet becomes a text node or an
// attribute's value, never markup.

import { COMING_UP, Card, stateOf } from "/assets/cards.js";
import { clock, counted, h, number, say, whole } from "/assets/words.js";

const POINTS_KEPT = 300;
const DECISIONS_KEPT = 50;
const SILENT_AFTER_MS = 3500;
const FINE = ["completed", "client_gone"];

const $ = (id) => document.getElementById(id);
const points = new Map();
const cards = new Map();
let heardAt = null;
let seenAt = null;

function showFleet(page) {
  const now = seenAt = page.at_s;
  const ids = new Set(page.models.map((model) => model.id));
  for (const [id, card] of cards) if (!ids.has(id)) { card.node.remove(); cards.delete(id); points.delete(id); }
  for (const [index, model] of page.models.entries()) {
    if (!cards.has(model.id)) {
      cards.set(model.id, new Card(model.id, `${index}-${cards.size}`));
      $("models").append(cards.get(model.id).node);
    }
    cards.get(model.id).show(model, points.get(model.id) ?? [], now);
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
    ["serving", number(replicas.filter((replica) => stateOf(replica) === "serving").length)],
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
  showFacts($("outcomes"), ended.map(([name, count]) => [words(name), whole.format(count), FINE.includes(name) ? "fine" : "bad"]));
  $("unended").hidden = ended.length > 0;
}

function addDecision(decision) {
  const { before, desired, fewer, more } = decision;
  const way = desired > before ? "up" : desired < before ? "down" : "same";
  const change = way === "same" ? `stays at ${desired}` : `${before} → ${desired}`;
  const without = ({ queued }) => queued ? `${counted(queued, "request", "requests")} without a slot` : "a slot for each";
  const others = [fewer, more].filter((other) => other.replicas !== desired && other.replicas >= 0);
  const instead = others.map((other) => `With ${other.replicas}: ${without(other)}.`).join(" ");
  const held = decision.held_by ? [" ", h("span", { class: "held" }, `held by ${decision.held_by}`)] : [];
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
  const isLive = heardAt !== null && performance.now() - heardAt < SILENT_AFTER_MS;
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
