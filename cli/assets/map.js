// The map: every node a tile, in a block for its zone. A canvas, because thousands of elements would be slow.

const RAMPS = {
  light: [[0, "#e6eaf3"], [0.25, "#b4c3f3"], [0.5, "#7b83e8"], [0.75, "#a044c8"], [0.9, "#e2487c"], [1, "#f97316"]],
  dark: [[0, "#222a39"], [0.25, "#313d85"], [0.5, "#5c52d6"], [0.75, "#b352d2"], [0.9, "#f2587f"], [1, "#ffa04a"]],
};
const FIT_RAMPS = { light: [[0, "#bfe6cf"], [1, "#15834c"]], dark: [[0, "#1d4a34"], [1, "#5fd196"]] };
const REASONS = {
  light: ["#e0892b", "#cf4f56", "#8f63c9", "#3f7cc4", "#b84c8b", "#7f8a35", "#7a8595"],
  dark: ["#f0a04b", "#e8696f", "#a985e0", "#5f9ce6", "#d570ab", "#a5b04f", "#8c98aa"],
};

const theme = () => document.documentElement.dataset.theme;
const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
const mixed = (ramp, share) => {
  const at = Math.max(0, Math.min(1, share));
  const above = Math.max(1, ramp.findIndex(([stop]) => stop >= at));
  const [[from, low], [to, high]] = [ramp[above - 1], ramp[above]];
  const part = (at - from) / (to - from);
  const [a, b] = [channels(low), channels(high)];
  return `rgb(${a.map((value, place) => Math.round(value + (b[place] - value) * part)).join(" ")})`;
};
// More than 256 steps are not distinguishable.
const steps = new Map();
const shade = (ramps, share) => {
  const ramp = ramps[theme()];
  if (!steps.has(ramp)) steps.set(ramp, Array.from({ length: 257 }, (_, step) => mixed(ramp, step / 256)));
  return steps.get(ramp)[Math.round(Math.max(0, Math.min(1, Number.isNaN(share) ? 0 : share)) * 256)];
};
const useColor = (share) => shade(RAMPS, share);
const fitColor = (height) => shade(FIT_RAMPS, 0.15 + 0.85 * height);
const reasonColor = (group) => REASONS[theme()][(group - 1) % REASONS.light.length];

const TALL = 56; // From this width a tile has room for a name.
const PAD = 12;
const TITLE = 30;

class NodeMap {
  // `paint(node)` returns the color of a node, whether it is dim or marked, and a text for large tiles.
  constructor(paint, open) {
    this.paint = paint;
    this.open = open;
    this.host = byId("map");
    this.canvas = byId("canvas");
    this.context = this.canvas.getContext("2d");
    this.order = zones.flatMap((zone) => zone.nodes);
    this.places = new Map(this.order.map((node, place) => [node.id, place]));
    this.hovered = null;
    this.current = null;
    this.options = [h("div", { class: "hidden", role: "option", id: "option-a" }), h("div", { class: "hidden", role: "option", id: "option-b" })];
    this.host.append(...this.options);
    new ResizeObserver(() => this.layout()).observe(this.host);
    this.host.addEventListener("pointermove", (event) => this.hover(event));
    this.host.addEventListener("pointerleave", () => this.hover(null));
    this.host.addEventListener("click", (event) => {
      const node = this.at(event);
      if (node) this.open(node);
    });
    this.host.addEventListener("keydown", (event) => this.key(event));
    this.host.addEventListener("focus", () => this.go(this.current ?? this.order[0]));
    this.host.addEventListener("blur", () => this.tip(null));
  }

  // The largest tiles with which all zones fit into the card; if the smallest do not fit, the map scrolls.
  layout() {
    const [width, height] = [this.host.clientWidth, this.host.clientHeight];
    if (width === 0 || zones.length === 0) return;
    let found = null;
    for (let size = 200; size >= 4 && !found; size -= size > 24 ? 4 : size > 12 ? 1 : 0.25) found = this.fit(width, height, size);
    found ??= this.fit(width, Infinity, 4);
    this.cell = found;
    this.blocks = found.blocks;
    const [full, ratio] = [Math.max(found.height, height), window.devicePixelRatio || 1];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(full * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${full}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  fit(width, limit, size) {
    const cell = { w: size, h: size >= TALL ? Math.round(size * 0.66) : size, gap: size >= TALL ? 8 : size >= 14 ? 3 : size >= 7 ? 2 : 1 };
    let best = null;
    for (let columns = Math.min(zones.length, 12); columns >= 1; columns -= 1) {
      const blockWidth = (width - PAD * (columns + 1)) / columns;
      const across = Math.floor((blockWidth - 2 * PAD + cell.gap) / (cell.w + cell.gap));
      if (across < 1) continue;
      const blocks = [];
      let top = PAD;
      for (let first = 0; first < zones.length; first += columns) {
        const line = zones.slice(first, first + columns);
        const rows = Math.max(...line.map((zone) => Math.ceil(zone.nodes.length / across)), 1);
        const blockHeight = TITLE + rows * (cell.h + cell.gap) - cell.gap + PAD;
        line.forEach((zone, place) => blocks.push({ zone, left: PAD + place * (blockWidth + PAD), top, width: blockWidth, height: blockHeight, across }));
        top += blockHeight + PAD;
      }
      if (top <= limit && (!best || top < best.height)) best = { ...cell, blocks, height: top };
    }
    return best && this.stretched(best, limit);
  }

  // The same with tiles that fill the remaining space.
  stretched(cell, limit) {
    const { blocks, gap } = cell;
    const { width, across } = blocks[0];
    const w = (width - 2 * PAD + gap) / across - gap;
    const lines = new Map(blocks.map((block) => [block.top, Math.round((block.height - TITLE - PAD + gap) / (cell.h + gap))]));
    const rows = [...lines.values()].reduce((sum, count) => sum + count, 0);
    const spare = Number.isFinite(limit) ? (limit - cell.height) / rows : 0;
    const h = cell.h + Math.max(0, Math.min(spare, w * (cell.w >= TALL ? 0.8 : 1.25) - cell.h));
    const tops = new Map();
    let top = PAD;
    for (const [line, count] of lines) {
      const height = TITLE + count * (h + gap) - gap + PAD;
      tops.set(line, [top, height]);
      top += height + PAD;
    }
    for (const block of blocks) [block.top, block.height] = tops.get(block.top);
    return { ...cell, w, h, height: top };
  }

  // Redraws all tiles in the next frame, or only some rings.
  redraw(isRingsOnly = false) {
    this.isAllOld ||= !isRingsOnly;
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      if (this.isAllOld) this.draw();
      else this.rings();
    });
  }

  // Left, top, width and height of a tile, on whole pixels.
  box(block, place) {
    const { w, h: high, gap } = this.cell;
    const [x, y] = [block.left + PAD + (place % block.across) * (w + gap), block.top + TITLE + Math.floor(place / block.across) * (high + gap)];
    const [left, top] = [Math.round(x), Math.round(y)];
    return [left, top, Math.max(1, Math.round(x + w) - left), Math.max(1, Math.round(y + high) - top)];
  }

  draw() {
    if (!this.blocks) return;
    this.isAllOld = false;
    const [context, styles] = [this.context, getComputedStyle(document.documentElement)];
    this.colors = Object.fromEntries(["page", "card", "raised", "line", "strong", "text", "soft", "faint", "accent", "warn"].map((name) => [name, styles.getPropertyValue(`--${name}`)]));
    this.font = styles.getPropertyValue("--sans");
    context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    context.textBaseline = "alphabetic";
    this.marked = [];
    for (const block of this.blocks) this.block(block);
    // Tiles are drawn separately, because rings change more often.
    this.tiles ??= document.createElement("canvas");
    Object.assign(this.tiles, { width: this.canvas.width, height: this.canvas.height });
    if (this.tiles.width > 0 && this.tiles.height > 0) this.tiles.getContext("2d").drawImage(this.canvas, 0, 0);
    this.rings();
  }

  // Rings around marked tiles, the tile under the pointer, and the active tile.
  rings() {
    const { context, colors } = this;
    if (!this.tiles?.width || !this.tiles.height) return;
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.tiles, 0, 0);
    context.restore();
    for (const node of this.marked) this.ring(this.boxOf(node), colors.text, 1.75);
    if (this.hovered && this.hovered !== this.current) this.ring(this.boxOf(this.hovered), colors.soft, 1.75);
    if (this.current) this.ring(this.boxOf(this.current), colors.accent, 2.5);
  }

  boxOf(node) {
    const block = this.blocks.find((known) => known.zone.nodes.includes(node));
    return this.box(block, block.zone.nodes.indexOf(node));
  }

  block(block) {
    const { context, colors, cell } = this;
    context.globalAlpha = 1;
    this.round(block.left, block.top, block.width, block.height, 10);
    context.fillStyle = colors.page;
    context.fill();
    context.textAlign = "left";
    context.fillStyle = colors.text;
    context.font = `600 12.5px ${this.font}`;
    const title = this.cut(block.zone.name, block.width - 2 * PAD);
    context.fillText(title, block.left + PAD, block.top + 20);
    const room = block.width - 2 * PAD - context.measureText(title).width - 10;
    context.fillStyle = colors.faint;
    context.font = `12px ${this.font}`;
    context.textAlign = "right";
    const many = [counted(block.zone.nodes.length, "node"), count(block.zone.nodes.length)].find((words) => context.measureText(words).width <= room);
    if (many) context.fillText(many, block.left + block.width - PAD, block.top + 20);
    context.textAlign = "left";
    block.zone.nodes.forEach((node, place) => {
      const box = this.box(block, place);
      const [left, top, w, high] = box;
      const look = this.paint(node);
      if (look.isAbsent) this.outline(node, box);
      else if (cell.w >= TALL) this.tile(node, look, box);
      else {
        context.globalAlpha = look.dim ? 0.16 : 1;
        context.fillStyle = look.color;
        if (cell.w >= 9) {
          this.round(left, top, w, high, cell.w >= 18 ? 4 : 2);
          context.fill();
        } else context.fillRect(left, top, w, high);
        if (look.isCordoned && cell.w >= 7) this.hatch(left, top, w, high);
      }
      context.globalAlpha = 1;
      if (look.marked) this.marked.push(node);
    });
  }

  // A node that is missing on this side.
  outline(node, [left, top, w, high]) {
    const { context, colors, cell } = this;
    this.round(left + 0.5, top + 0.5, w - 1, high - 1, cell.w >= TALL ? 7 : cell.w >= 9 ? 3 : 0);
    context.strokeStyle = colors.strong;
    context.lineWidth = 1;
    context.setLineDash(cell.w >= TALL ? [5, 4] : [2, 2]);
    context.stroke();
    context.setLineDash([]);
    if (cell.w < TALL) return;
    context.fillStyle = colors.faint;
    context.font = `500 ${w >= 110 ? 13 : 11}px ${this.font}`;
    context.fillText(this.cut(node.name, w - 18), left + 9, top + (w >= 110 ? 20 : 18));
  }

  // A large tile is filled up to the node's utilization.
  tile(node, look, [left, top, w, high]) {
    const { context, colors } = this;
    const level = Math.round(high * Math.max(0, Math.min(1, look.level)));
    context.save();
    this.round(left, top, w, high, 7);
    context.clip();
    context.globalAlpha = look.dim ? 0.3 : 1;
    context.fillStyle = colors.card;
    context.fillRect(left, top, w, high);
    context.fillStyle = look.color;
    context.globalAlpha = look.dim ? 0.05 : 0.1;
    context.fillRect(left, top, w, high);
    if (look.note === undefined) {
      context.globalAlpha = look.dim ? 0.1 : 0.3;
      context.fillRect(left, top + high - level, w, level);
      context.globalAlpha = look.dim ? 0.3 : 1;
      if (level > 0 && level < high) context.fillRect(left, top + high - level - 1, w, 2);
    } else {
      context.globalAlpha = look.dim ? 0.3 : 1;
      context.fillRect(left, top, 5, high);
    }
    if (look.isCordoned) this.hatch(left, top, w, high);
    context.restore();
    context.globalAlpha = look.dim ? 0.3 : 1;
    this.round(left + 0.5, top + 0.5, w - 1, high - 1, 7);
    context.strokeStyle = colors.line;
    context.lineWidth = 1;
    context.stroke();
    const size = w >= 110 ? 13 : 11;
    context.globalAlpha = look.dim ? 0.45 : 1;
    context.font = `600 ${size}px ${this.font}`;
    const aside = w >= 96 ? look.word : "";
    context.fillStyle = colors.text;
    const room = aside ? context.measureText(aside).width + 8 : 0;
    context.fillText(this.cut(node.name, w - 23 - room), left + (look.note === undefined ? 9 : 14), top + size + 7);
    if (aside) {
      context.textAlign = "right";
      context.fillStyle = colors.soft;
      context.font = `500 ${size}px ${this.font}`;
      context.fillText(aside, left + w - 9, top + size + 7);
      context.textAlign = "left";
    }
    const inset = look.note === undefined ? 9 : 14;
    if (look.note && high >= 64) {
      context.fillStyle = colors.soft;
      context.font = `${size - 1}px ${this.font}`;
      const lines = this.wrapped(look.note, w - inset - 9).slice(0, high >= 96 ? 3 : 1);
      lines.forEach((line, place) => context.fillText(line, left + inset, top + high - 10 - (lines.length - 1 - place) * (size + 4)));
    }
    this.dots(look.dots, left + inset, top + size + 17, w - inset - 9, high - size - 26 - (look.note ? 3 * size : 0));
    context.globalAlpha = 1;
  }

  // A square for each pod, with another color for pods that differ between the sides.
  dots(dots, left, top, width, height) {
    const { context, colors } = this;
    const [size, gap] = width >= 110 ? [11, 4] : [8, 3];
    const across = Math.floor((width + gap) / (size + gap));
    const most = across * Math.floor((height + gap) / (size + gap));
    if (most < 1) return;
    const shown = dots.length > most ? dots.slice(0, Math.max(0, most - 1)) : dots;
    shown.forEach((dot, place) => {
      context.fillStyle = [colors.faint, colors.accent, colors.warn][dot];
      this.round(left + (place % across) * (size + gap), top + Math.floor(place / across) * (size + gap), size, size, 2);
      context.fill();
    });
    if (shown.length < dots.length) {
      context.fillStyle = colors.soft;
      context.font = `600 11px ${this.font}`;
      context.fillText("+", left + (shown.length % across) * (size + gap), top + Math.floor(shown.length / across) * (size + gap) + size);
    }
  }

  hatch(left, top, width, height) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.globalAlpha *= 0.35;
    context.strokeStyle = this.colors.soft;
    context.lineWidth = 1;
    context.beginPath();
    for (let at = -height; at < width; at += width >= TALL ? 8 : 4) {
      context.moveTo(left + at, top + height);
      context.lineTo(left + at + height, top);
    }
    context.stroke();
    context.restore();
  }

  ring([left, top, w, high], color, width) {
    const { context, cell } = this;
    const out = cell.gap >= 2 ? 1.5 : 1;
    this.round(left - out, top - out, w + 2 * out, high + 2 * out, cell.w >= TALL ? 8 : cell.w >= 9 ? 4 : 1);
    context.strokeStyle = color;
    context.lineWidth = width;
    context.stroke();
  }

  round(left, top, width, height, radius) {
    this.context.beginPath();
    this.context.roundRect(left, top, width, height, radius);
  }

  // Wraps to this width; wider words are cut.
  wrapped(text, width) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
      if (this.context.measureText(longer).width <= width || !lines[lines.length - 1]) lines[lines.length - 1] = this.cut(longer, width);
      else lines.push(this.cut(word, width));
    }
    return lines;
  }

  cut(text, width) {
    if (this.context.measureText(text).width <= width) return text;
    let kept = text.length;
    while (kept > 1 && this.context.measureText(`${text.slice(0, kept)}…`).width > width) kept -= 1;
    return `${text.slice(0, kept)}…`;
  }

  at(event) {
    if (!this.blocks) return null;
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const block = this.blocks.find((known) => x >= known.left && x < known.left + known.width && y >= known.top && y < known.top + known.height);
    if (!block) return null;
    const { w, h: high, gap } = this.cell;
    const [column, row] = [Math.floor((x - block.left - PAD) / (w + gap)), Math.floor((y - block.top - TITLE) / (high + gap))];
    if (column < 0 || row < 0 || column >= block.across) return null;
    return block.zone.nodes[row * block.across + column] ?? null;
  }

  hover(event) {
    const node = event ? this.at(event) : null;
    this.host.style.cursor = node ? "pointer" : "";
    if (node) this.tip(node, event.clientX, event.clientY);
    else this.tip(null);
    if (node === this.hovered) return;
    this.hovered = node;
    this.redraw(true);
  }

  tip(node, x, y) {
    const tip = byId("tip");
    tip.hidden = !node;
    if (!node) return;
    const [name, ...lines] = this.paint(node).lines;
    tip.replaceChildren(h("b", {}, name), ...lines.map((line) => h("span", {}, line)));
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.min(x + 14, innerWidth - width - 8)}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 12 : y + 18}px`;
  }

  // Makes a node active, scrolls to it, and announces it to screen readers.
  go(node, isQuiet = false) {
    if (!node || !this.blocks) return;
    this.current = node;
    const block = this.blocks.find((known) => known.zone.nodes.includes(node));
    const [left, top] = this.box(block, block.zone.nodes.indexOf(node));
    if (top < this.host.scrollTop) this.host.scrollTop = top - TITLE;
    else if (top + this.cell.h > this.host.scrollTop + this.host.clientHeight) this.host.scrollTop = top + this.cell.h - this.host.clientHeight + PAD;
    this.redraw(true);
    if (isQuiet) return;
    const [option] = this.options.reverse();
    option.textContent = this.paint(node).lines.join(", ");
    option.setAttribute("aria-posinset", this.places.get(node.id) + 1);
    option.setAttribute("aria-setsize", this.order.length);
    option.setAttribute("aria-selected", "true");
    this.host.setAttribute("aria-activedescendant", option.id);
    const frame = this.canvas.getBoundingClientRect();
    if (this.host.matches(":focus-visible")) this.tip(node, frame.left + left + this.cell.w, frame.top + top + this.cell.h - 10);
  }

  key(event) {
    if (!this.blocks) return;
    const place = this.places.get((this.current ?? this.order[0]).id);
    const block = this.blocks.find((known) => known.zone.nodes.includes(this.order[place]));
    const inBlock = block.zone.nodes.indexOf(this.order[place]);
    const moves = {
      ArrowRight: 1,
      ArrowLeft: -1,
      // At the end of a zone's rows first to its end, then to the next zone.
      ArrowDown: Math.min(block.across, Math.max(1, block.zone.nodes.length - 1 - inBlock)),
      ArrowUp: -Math.min(block.across, Math.max(1, inBlock)),
      PageDown: block.zone.nodes.length - inBlock,
      PageUp: -(inBlock + 1),
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in moves) this.go(this.order[Math.max(0, Math.min(this.order.length - 1, place + moves[event.key]))]);
    else if (event.key === "Enter" || event.key === " ") this.open(this.order[place]);
    else return;
    event.preventDefault();
  }
}
