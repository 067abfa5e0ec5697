// A trace as a waterfall: a line for each span, below its parent, as in `flotilla trace`.

const MOST_SPANS = 1000;
const PROCESS_COLORS = { light: ["#3b5bdb", "#c2570c", "#0f7b5f", "#9d2a9d", "#8a6d00", "#0e7490", "#b4234a", "#5a6475"], dark: ["#8aa4ff", "#f0a04b", "#5fd196", "#d98ae0", "#d9c04b", "#5ac8dc", "#f2748f", "#9aa5b8"] };

const processColor = (place) => PROCESS_COLORS[theme()][place % PROCESS_COLORS.light.length];

// Round times for about five lines.
const ticksOf = (takesUs) => {
  const wanted = Math.max(takesUs, 1) / 5;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).reduce((best, next) => (Math.abs(next - wanted) < Math.abs(best - wanted) ? next : best));
  return Array.from({ length: Math.floor(takesUs / step) + 1 }, (_, place) => place * step);
};

const attributesOf = (row, processes) => {
  const facts = [["process", processes[row.process]?.name ?? "unknown"], ["begins after", duration(row.startUs)], ["takes", duration(row.takesUs)], ...(row.error !== null ? [["error", row.error || "failed"]] : []), ...row.attributes];
  return h("dl", { class: "facts" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
};

// The drawing of a trace. `opened`: the indexes of spans with visible attributes.
const waterfall = (trace, opened) => {
  const { rows, processes, takesUs } = trace;
  const at = (us) => `${(us / Math.max(takesUs, 1)) * 100}%`;
  const ticks = ticksOf(takesUs);
  const lines = () =>
    ticks.map((us) => {
      const line = h("i", { class: "tick", "aria-hidden": "true" });
      line.style.left = at(us);
      return line;
    });
  const scale = h("div", { class: "scale" }, h("span", { class: "spanname dim" }, "span"), h("div", { class: "lane" }, ticks.map((us) => {
    const label = h("span", { class: us === 0 ? "first" : "" }, us === 0 ? "0" : duration(us));
    label.style.left = at(us);
    return label;
  })));
  const items = rows.slice(0, MOST_SPANS).map((row, place) => {
    const bar = h("i", { class: row.error === null ? "spanbar" : "spanbar failed" });
    Object.assign(bar.style, { left: at(row.startUs), width: `max(2px, ${at(row.takesUs)})`, background: processColor(row.process) });
    const words = h("span", { class: row.error === null ? "took" : "took failed" }, duration(row.takesUs), row.error ? ` · ${row.error}` : "");
    // Behind the bar, or before it where there is more room.
    const isBehind = row.startUs + row.takesUs < takesUs * 0.72;
    if (isBehind) words.style.left = `calc(${at(row.startUs + row.takesUs)} + 8px)`;
    else if (row.startUs > takesUs * 0.28) words.style.right = `calc(100% - ${at(row.startUs)} + 8px)`;
    else {
      words.classList.add("inside");
      words.style.left = `calc(${at(row.startUs)} + 8px)`;
    }
    const name = h("span", { class: "spanname", title: row.name }, row.name);
    name.style.paddingLeft = `${8 + Math.min(row.depth, 12) * 16}px`;
    const isOpen = opened.has(place);
    const label = `${row.name}, ${processes[row.process]?.name ?? ""}, begins after ${duration(row.startUs)}, takes ${duration(row.takesUs)}${row.error === null ? "" : `, failed ${row.error}`}`;
    const item = h("li", {});
    const press = () => {
      if (opened.has(place)) opened.delete(place);
      else opened.add(place);
      draw();
      button.focus();
    };
    const button = h("button", { type: "button", class: "span", "aria-expanded": isOpen ? "true" : "false", "aria-label": label, onclick: press }, name, h("span", { class: "lane" }, lines(), bar, words));
    const draw = () => {
      button.setAttribute("aria-expanded", opened.has(place) ? "true" : "false");
      item.replaceChildren(button, ...(opened.has(place) ? [attributesOf(row, processes)] : []));
    };
    draw();
    return item;
  });
  const legend = h("div", { class: "keys" }, processes.map(({ name }, place) => h("span", { class: "key" }, swatch(processColor(place)), h("span", {}, name))));
  const list = h("ol", { class: "spans" }, items);
  // The arrow keys move between spans.
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const buttons = [...list.querySelectorAll(".span")];
    const to = buttons[buttons.indexOf(document.activeElement) + (step ?? NaN)];
    if (!to) return;
    event.preventDefault();
    to.focus();
  });
  const rest = rows.length > MOST_SPANS ? h("p", { class: "empty" }, `${counted(rows.length - MOST_SPANS, "more span")} are not shown; \`flotilla trace ${trace.id}\` prints all.`) : null;
  return h("div", { class: "waterfall" }, legend, scale, list, rest);
};
