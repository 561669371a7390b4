// Small words and figures that every part of the page uses. Text only ever becomes a text node.

export const UNKNOWN = "–";

export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Untouched when nothing changed, so that selections and screen readers are left alone.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const number = (value) => value === null ? UNKNOWN : (Math.abs(value) < 100 ? few : whole).format(value);
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

export function span(seconds) {
  if (seconds === null) return UNKNOWN;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;
