// Text, amounts and elements. Every string from the report becomes text in the document, never markup.

const h = (tag, given = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

const byId = (id) => document.getElementById(id);

// Control and bidirectional characters could make one name look like another.
const clean = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");

// The same for text with several lines.
const cleanLines = (text) => text.split("\n").map(clean).join("\n");

const grouped = new Intl.NumberFormat("en");
const collator = new Intl.Collator("en", { numeric: true });
const count = (value) => grouped.format(value);
const counted = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

// A list with its numbers in a column as wide as the longest.
const withDigits = (list, numbers) => {
  list.style.setProperty("--digits", `${Math.max(...numbers.map((value) => count(value).length), 1)}ch`);
  return list;
};

const short = (value) => {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
};

// Amounts are in the smallest unit: thousandths of a core, bytes, pieces.
const amount = (resource, value) => {
  if (resource === "cpu") return Math.abs(value) < 1000 && value !== 0 ? `${Math.round(value)}m` : short(value / 1000);
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return short(value) + units[unit];
  }
  return count(value);
};

const percent = (share) => {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value > 0 && value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} %`;
};

// The causes in a message of the condition PodScheduled, without their node counts.
const causeOf = (message) => {
  const body = /nodes are available: (.*?)(?:\. preemption:.*|\.?)$/s.exec(message);
  if (!body) return message;
  const causes = [];
  for (const part of body[1].split(", ")) {
    const cause = /^\d+ (.*)$/s.exec(part);
    if (cause) causes.push([Number(part.split(" ", 1)[0]), cause[1]]);
    else if (causes.length > 0) causes[causes.length - 1][1] += `, ${part}`;
  }
  causes.sort((left, right) => right[0] - left[0] || collator.compare(left[1], right[1]));
  return causes.map(([, cause]) => cause).join(" · ") || message;
};
