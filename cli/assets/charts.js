// Charts of the last minutes, drawn by uPlot, with a legend of the current values or those under the pointer.

const LEAST_S = 120; // So that a few seconds do not look like minutes.

// 1, 2 and 5 with zeros.
const STEPS = Array.from({ length: 14 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** (power - 2))).flat();

const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// Microseconds with three significant digits.
const duration = (us) => {
  if (us === null || us === undefined) return "–";
  if (us < 0.5) return "0";
  if (us < 1000) return `${Math.round(us)} µs`;
  return us < 1e6 ? `${short(us / 1000)} ms` : us < 120e6 ? `${short(us / 1e6)} s` : span(us / 1000);
};

const span = (ms) => {
  const s = ms / 1000;
  if (s < 60) return `${short(s)} s`;
  const [days, hours, minutes] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  return days > 0 ? `${days} d ${hours} h` : hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(s % 60)} s`;
};

// The end of an axis: a little above the highest value.
const ceiling = (value) => {
  const step = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * step).find((end) => end >= value * 1.05) ?? step * 12;
};

class Chart {
  // `series`: the name of a line in the answer, its label, the name of its color, and whether its area is filled. `leastStep`:
  // the minimum distance of two grid lines.
  constructor(title, write, series, leastStep = 0) {
    Object.assign(this, { title, write, series, leastStep });
    this.values = series.map(() => h("b", {}, "–"));
    const keys = series.map(({ label, color }, place) => {
      const line = h("i", { class: "line", "aria-hidden": "true" });
      line.style.background = `var(--${color})`;
      return h("span", { class: "key" }, line, h("span", {}, label), this.values[place]);
    });
    this.canvas = h("div", { class: "plot", role: "img" });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, title), h("span", { class: "keys" }, keys)), this.canvas);
    new ResizeObserver(() => this.fit()).observe(this.canvas);
  }

  show(lines) {
    this.data = [lines.atMs.map((at) => at / 1000), ...this.series.map(({ name }) => lines[name])];
    if (this.plot) this.plot.setData(this.data);
    else this.fit();
    this.tell();
  }

  // The values of the legend: the last ones, or those under the pointer.
  tell() {
    const under = this.plot?.cursor.idx;
    const place = under ?? this.data[0].length - 1;
    this.values.forEach((element, line) => (element.textContent = this.write(this.data[line + 1][place] ?? null)));
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.series.map(({ label }, line) => `${label} ${this.values[line].textContent}`).join(", ")}`);
  }

  fit() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!this.data || width < 40 || height < 40) return;
    if (this.plot) this.plot.setSize({ width, height });
    else this.plot = new uPlot(this.options(width, height), this.data, this.canvas);
  }

  // In the colors of the current theme.
  repaint() {
    this.plot?.destroy();
    this.plot = null;
    this.fit();
  }

  options(width, height) {
    const axis = { stroke: cssColor("faint"), font: `11px ${cssColor("sans")}`, ticks: { show: false }, grid: { stroke: cssColor("line"), width: 1 } };
    const lines = this.series.map(({ label, color, isFilled }) => ({ label, stroke: cssColor(color), width: 1.75, fill: isFilled ? `${cssColor(color)}22` : undefined, points: { show: false } }));
    return {
      width,
      height,
      padding: [10, 6, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "live" }, points: { size: 6 } },
      hooks: { setCursor: [() => this.plot && this.tell()] },
      scales: { x: { time: true, range: (_, from, until) => [Math.min(from, until - LEAST_S), until] }, y: { range: (_, least, most) => [0, ceiling(most ?? 1)] } },
      axes: [
        { ...axis, space: 90, size: 28, gap: 7, grid: { show: false }, values: (_, times) => times.map((at) => clock.format(new Date(at * 1000))) },
        { ...axis, space: 34, size: 62, gap: 6, incrs: STEPS.filter((step) => step >= this.leastStep), values: (_, values) => values.map((value) => (value === 0 ? "0" : this.write(value))) },
      ],
      series: [{}, ...lines],
    };
  }
}
