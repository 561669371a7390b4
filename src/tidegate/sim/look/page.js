"use strict";
// Shows the numbers of the slot under the pointer, and a line through all panels of that run.
const runs = JSON.parse(document.getElementById("numbers").textContent);
const told = document.createElement("div");
told.id = "told";
document.body.append(told);
const WIDTH = 1040, LEFT = 64, RIGHT = 16;

function seconds(value) {
  return value === null ? "never" : value < 1 ? Math.round(value * 1000) + " ms" : value.toFixed(2) + " s";
}

function clock(at) {
  const hours = Math.floor(at / 3600), minutes = Math.floor(at / 60) % 60, rest = Math.floor(at % 60);
  return [hours, minutes, rest].map((part) => String(part).padStart(2, "0")).join(":");
}

function text(run, slot) {
  const lines = [clock(slot * run.slot), run.rate[slot].toFixed(2) + " requests/s"];
  if (run.kept[slot] !== null) lines.push((run.kept[slot] * 100).toFixed(1) + " % kept the promise");
  for (const [phase, counts] of Object.entries(run.replicas)) if (counts[slot]) lines.push(counts[slot] + " " + phase);
  lines.push(run.wanted[slot] + " wanted", run.queued[slot] + " queued, " + run.running[slot] + " in flight");
  if (run.rate[slot]) lines.push("TTFT " + seconds(run.p50[slot]) + " / " + seconds(run.p95[slot]) + " (p50 / p95)");
  return lines.join("\n");
}

document.querySelectorAll("section[data-run]").forEach((section) => {
  const run = runs[Number(section.dataset.run)];
  const lines = section.querySelectorAll(".pointer");
  section.querySelectorAll("svg").forEach((svg) => {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      const slot = Math.floor(((x - LEFT) / (WIDTH - LEFT - RIGHT)) * run.rate.length);
      const inside = slot >= 0 && slot < run.rate.length;
      lines.forEach((line) => {
        line.setAttribute("x1", x);
        line.setAttribute("x2", x);
        line.style.visibility = inside ? "visible" : "hidden";
      });
      told.style.visibility = inside ? "visible" : "hidden";
      if (!inside) return;
      told.textContent = text(run, slot);
      told.style.left = Math.min(event.clientX + 14, window.innerWidth - told.offsetWidth - 8) + "px";
      told.style.top = event.clientY + 14 + "px";
    });
    svg.addEventListener("pointerleave", () => {
      told.style.visibility = "hidden";
      lines.forEach((line) => { line.style.visibility = "hidden"; });
    });
  });
});
