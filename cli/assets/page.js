// The state of the page, and its rendering.

const state = { resource: 0, side: lastSide, tab: report.comparison ? "changes" : pendingPods.length > 0 || notCreated.length > 0 ? "pending" : "pods", search: "", cause: null, pod: null, node: null, verdicts: null, problem: "", group: null };

const say = (text) => {
  byId("said").textContent = text;
};

// Theme: the reader's choice, else that of the system.
const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => {
  try {
    return localStorage.getItem("flotilla-theme");
  } catch {
    return null;
  }
};
const setTheme = (name) => {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} mode`);
};
setTheme(chosen() === "dark" || chosen() === "light" ? chosen() : system.matches ? "dark" : "light");

// The fragment of the address names the open view, for links and the browser's Back.
const openPod = (pod) => go(`#pod=${encodeURIComponent(pod.name)}`);
const openNode = (node) => go(`#node=${encodeURIComponent(node.name)}`);
const close = () => go(`#${state.tab}`);
const go = (address) => {
  if (location.hash === address) follow();
  else location.hash = address;
};

const podNames = new Map(pods.map((pod) => [pod.name, pod]));
const nodeNames = new Map(nodes.map((node) => [node.name, node]));

// The name in an address; nothing if it is invalid.
const decoded = (name) => {
  try {
    return clean(decodeURIComponent(name));
  } catch {
    return null;
  }
};

// The cluster with its nodes and pods, or the running coordinator.
const showView = (view) => {
  state.view = view;
  for (const id of ["tiles", "cluster", "figures"]) byId(id).hidden = view !== "cluster";
  for (const id of ["livetiles", "problems", "live"]) byId(id).hidden = view !== "live";
  for (const id of ["cluster", "live"]) byId(`view-${id}`).setAttribute("aria-current", id === view ? "page" : "false");
  if (view === "cluster") {
    live?.close();
    renderTop();
  }
};

const follow = async (isFirst = false) => {
  const [, what, name] = /^#([a-z]+)(?:=(.*))?$/.exec(location.hash) ?? [];
  const named = (known) => known.get(decoded(name ?? "")) ?? null;
  showView(what === "live" && live ? "live" : "cluster");
  if (live && what === "live") {
    live.open(name ? decoded(name) : null, isFirst);
    return;
  }
  const had = state.pod ?? state.node;
  const wasTab = document.activeElement?.getAttribute("role") === "tab";
  Object.assign(state, { pod: what === "pod" ? named(podNames) : null, node: what === "node" ? named(nodeNames) : null, verdicts: null, problem: "", group: null });
  if (what in lists || (what === "ask" && canAsk)) state.tab = what;
  if (state.tab === "ask" && what === "ask") {
    if (name) askAbout(decoded(name));
    state.verdicts = asking.shown?.verdicts ?? null;
  }
  const { pod } = state;
  if (state.node) map.go(state.node, true);
  if (pod && pod.places[lastSide] >= 0) map.go(nodes[pod.places[lastSide]], true);
  if (pod) {
    const wait = setTimeout(() => state.pod === pod && showProblem(pod, "Evaluating the nodes …"), 150);
    try {
      const account = await accountOf(pod);
      if (state.pod !== pod) return;
      if (account) state.verdicts = verdictsOf(account);
      else state.problem = withoutAccount(pod);
    } catch (error) {
      if (state.pod !== pod) return;
      state.problem = `The pod cannot be evaluated: ${error.message}`;
    } finally {
      clearTimeout(wait);
    }
  }
  render({ keepFocus: isFirst ? null : pod || state.node ? "subjectname" : what === "ask" && !wasTab ? "question" : had ? "table" : wasTab ? `tab-${state.tab}` : null });
  if (pod ?? state.node) say(`${(pod ?? state.node).name} is open`);
};

const showProblem = (pod, text) => {
  state.problem = text;
  render({ keepFocus: "subjectname" });
};

const withoutAccount = (pod) => {
  if (isPending(pod) && report.unexplained > 0) {
    return `This file has no results for it: those of all pending pods would exceed ${report.mostAccountBytes >> 20} MiB, and ${counted(report.unexplained, "pod")} are left out. Run \`flotilla explain --pod ${pod.name}\`, or open the page with \`flotilla ui\`.`;
  }
  return isPending(pod) ? "" : "This file has results for pending pods only. `flotilla ui` evaluates any pod.";
};

// The map shows the utilization of a node, or its result for the open pod.
const paint = (node) => {
  const share = shareOf(node, state.resource, state.side);
  const resource = resources[state.resource];
  const all = node.offered[state.side][state.resource];
  const use = !node.isThere[state.side] ? `not there ${report.sides[state.side]}` : all > 0 ? `${percent(share)} of ${amount(resource, all)} ${resource}` : `no ${resource}`;
  const lines = [node.name, `${report.zones[node.zone] || "no zone"} · ${counted(node.pods[state.side].length, "pod")}${node.cordoned[state.side] ? " · cordoned" : ""}`, use];
  // 1: new on the last side; 2: leaves the node with the change.
  const dots = node.pods[state.side].map((pod) => (isNew(pod) ? (state.side === lastSide ? 1 : 2) : 0));
  if (lastSide > 0) dots.sort((left, right) => left - right);
  const verdict = state.verdicts?.of.get(node.id);
  if (verdict) {
    const { groups, account } = state.verdicts;
    const isFit = verdict.group === FITS;
    lines.push(isFit ? `feasible${verdict.total === null ? "" : `, total ${count(verdict.total)}`}` : groups[verdict.group].title || "refused");
    if (verdict.lacks) lines.push(`lacks ${verdict.lacks}`);
    return {
      color: isFit ? fitColor(verdict.height) : reasonColor(verdict.group),
      level: 0,
      note: isFit ? "feasible" : groups[verdict.group].title || "refused",
      dim: state.group !== null && state.group !== verdict.group,
      marked: state.pod?.places[lastSide] === node.id || (account.feasible.length > 0 && account.best.length < 10 && account.best.includes(node.id)),
      word: isFit && verdict.total !== null ? count(verdict.total) : "",
      isAbsent: !node.isThere[state.side],
      isCordoned: node.cordoned[state.side],
      dots,
      lines,
    };
  }
  const isSought = state.find !== "" && node.name.toLowerCase().includes(state.find);
  const isHome = state.pod !== null && state.pod.places[state.side] === node.id;
  return { color: useColor(share), level: share || 0, dim: state.find !== "" && !isSought, isAbsent: !node.isThere[state.side] || isTakenAway(node), isCordoned: node.cordoned[state.side], marked: node === state.node || isHome, word: all > 0 ? percent(share) : "–", dots, lines };
};
state.find = "";

const map = new NodeMap(paint, openNode);

// A choice: arrow keys choose, one stop of the Tab key.
const choice = (host, items, isChosen, choose) => {
  const buttons = items.map((item, place) => {
    const press = (at) => {
      choose(items[at]);
      host().querySelectorAll("[role=radio]")[at].focus();
    };
    const key = (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      press((place + step + items.length) % items.length);
    };
    return h("button", { type: "button", role: "radio", class: item.look, "aria-checked": isChosen(item) ? "true" : "false", tabindex: isChosen(item) ? 0 : -1, "aria-label": item.label, onclick: () => press(place), onkeydown: key }, item.content);
  });
  return buttons;
};

const renderTop = () => {
  const made = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }).format(new Date(report.madeMs));
  document.title = `${report.subject || report.command} – Flotilla`;
  byId("subject").replaceChildren(`${report.command} `, h("b", {}, report.subject || (live ? "a live cluster" : "")), ` · ${made}`);
  const { figures } = report;
  // A rate of a few pods is meaningless.
  byId("figures").textContent = figures && pods.length >= 1000 ? `${count(Math.round(figures.decisionsPerSecond))} decisions per second by ${counted(figures.workers, "worker")} · p99 ${short(figures.p99Micros / 1000)} ms` : `version ${report.version}`;
};

const podsOn = (side) => pods.filter((pod) => pod.places[side] !== ABSENT).length;

const renderTiles = () => {
  const placed = pods.length - pendingPods.length;
  const fresh = lastSide > 0 ? pods.filter((pod) => isNew(pod) && !isPending(pod)).length : 0;
  const tile = (name, big, small, look = "") => h("div", { class: `tile ${look}` }, h("span", { class: "name" }, name), h("span", { class: "big" }, big, h("small", {}, small)));
  const offers = resources.map((resource, place) => ({ resource, place })).filter(({ place }) => offered.some((amounts) => amounts[place] > 0));
  const items = offers.map(({ resource, place }) => {
    const [share, was] = [totals[state.side][place] / offered[state.side][place], state.side > 0 ? totals[0][place] / offered[0][place] : null];
    const of = `${amount(resource, totals[state.side][place])} of ${amount(resource, offered[state.side][place])}`;
    return { place, look: "tile", label: `${resource}: ${of}, ${percent(share)}${was === null ? "" : `, was ${percent(was)}`}`, content: [h("span", { class: "name" }, resource), h("span", { class: "big" }, percent(share), h("small", {}, was === null ? of : `was ${percent(was)}`)), meter(share, was)] };
  });
  const choose = (item) => {
    state.resource = item.place;
    renderTiles();
    renderLegend();
    map.redraw();
  };
  byId("tiles").replaceChildren(
    tile("nodes", count(nodesOn[state.side]), nodesOn[0] !== nodesOn[state.side] ? `was ${count(nodesOn[0])}` : `in ${counted(zones.length, "zone")}`),
    report.comparison
      ? tile("pods", count(podsOn(state.side)), podsOn(0) !== podsOn(state.side) ? `was ${count(podsOn(0))}` : "")
      : tile("pods with a node", count(placed), fresh > 0 ? `${count(fresh)} placed` : `of ${count(pods.length)}`),
    report.comparison
      ? tile("pending pods", count(pendingOn[state.side]), state.side > 0 ? `was ${count(pendingOn[0])}` : "", pendingOn[state.side] > 0 ? "warn" : "")
      : tile("pending pods", count(pendingPods.length), pendingPods.length > 0 ? counted(new Set(pendingPods.map((pod) => pod.cause)).size, "reason") : "", pendingPods.length > 0 ? "warn" : ""),
    h("div", { class: "resources", role: "radiogroup", "aria-label": "Resource that colors the map" }, choice(() => byId("tiles"), items, (item) => item.place === state.resource, choose)),
  );
};

const renderSides = () => {
  if (lastSide === 0) return;
  const items = report.sides.map((name, side) => ({ side, content: [name], look: "", label: name }));
  const choose = ({ side }) => {
    state.side = side;
    renderSides();
    renderTiles();
    render({ keepFocus: null });
    byId("sides").querySelectorAll("[role=radio]")[side].focus();
  };
  byId("sides").replaceChildren(...choice(() => byId("sides"), items, (item) => item.side === state.side, choose));
};

const renderLegend = () => {
  if (state.verdicts && state.verdicts.of.size > 0) {
    const keys = state.verdicts.groups.map((group, place) => ({ group, place })).filter(({ group }) => group.nodes.length > 0);
    const shown = keys.slice(0, 3).map(({ group, place }) => h("span", { class: "key", title: group.title }, swatch(place === FITS ? fitColor(1) : reasonColor(place)), h("span", {}, place === FITS ? "feasible" : group.title)));
    byId("legend").replaceChildren(...shown, ...(keys.length > 3 ? [h("span", { class: "dim" }, `+${keys.length - 3}`)] : []));
    return;
  }
  const ramp = h("span", { class: "ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(90deg, ${RAMPS[theme()].map(([stop, color]) => `${color} ${stop * 100}%`).join(", ")})`;
  byId("legend").replaceChildren(h("span", {}, `${resources[state.resource]} in use`), "0", ramp, "100 %");
};

let table = null;

// The tabs of all lists, and the tab Ask.
const tabsOf = (open) => {
  const items = Object.entries(lists).map(([name, { title, all }]) => ({ name, title, found: all.length }));
  if (canAsk) items.push({ name: "ask", title: "Ask", found: null });
  return tabStrip("Lists", "", items, state.tab, open);
};

const openTab = (name) => {
  Object.assign(state, { search: "", cause: null });
  byId(`tab-${name}`).focus();
  go(`#${name}`);
};

const listSheet = () => {
  if (state.tab === "ask") {
    table = null;
    const sheet = h("div", { class: "sheet", id: "sheet", role: "tabpanel", "aria-labelledby": "tab-ask" }, askSheet());
    byId("panel").replaceChildren(h("div", { class: "tabs" }, tabsOf(openTab)), sheet);
    return;
  }
  const list = lists[state.tab];
  table = list.make();
  const search = h("input", { type: "search", id: "search", placeholder: "Search", "aria-label": `Search ${list.title.toLowerCase()}`, autocomplete: "off", spellcheck: "false", oninput: (event) => {
    state.search = event.target.value;
    fill();
  } });
  search.value = state.search;
  const tabs = tabsOf(openTab);
  const sheet = h("div", { class: "sheet fixed", id: "sheet", role: "tabpanel", "aria-labelledby": `tab-${state.tab}` });
  const none = h("p", { class: "empty", hidden: true });
  const fill = () => {
    const rows = list.rows();
    table.show(rows);
    table.element.hidden = rows.length === 0;
    none.hidden = rows.length > 0;
    none.textContent = list.all.length === 0 ? list.empty : "Nothing matches.";
    if (state.search) say(counted(rows.length, "match").replace(/matchs$/, "matches"));
  };
  sheet.append(...[list.head?.(), table.element, none].filter(Boolean));
  byId("panel").replaceChildren(h("div", { class: "tabs" }, tabs, search), sheet);
  fill();
};

const detailSheet = () => {
  const parts = state.pod ? podSheet(state.pod, state.verdicts, state.problem) : nodeSheet(state.node);
  const back = h("button", { type: "button", class: "plain back", onclick: close }, `← ${lists[state.tab]?.title ?? "Ask"}`);
  byId("panel").replaceChildren(h("div", { class: "tabs" }, back), h("div", { class: "sheet", id: "sheet" }, parts));
};

const render = ({ keepFocus = null } = {}) => {
  const top = byId("sheet")?.scrollTop ?? 0;
  if (state.pod || state.node) detailSheet();
  else listSheet();
  if (keepFocus?.startsWith("group") || keepFocus?.startsWith("asked")) byId("sheet").scrollTop = top;
  renderLegend();
  map.redraw();
  if (keepFocus === "table") table?.element.focus({ preventScroll: true });
  else if (keepFocus) byId(keepFocus)?.focus({ preventScroll: !["answer", "wrong"].includes(keepFocus) });
};

const redrawAll = () => {
  renderTiles();
  if (state.view === "cluster") render();
  live?.repaint();
};

byId("theme").addEventListener("click", () => {
  const name = theme() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("flotilla-theme", name);
  } catch {
    // Some browsers store nothing for files.
  }
  setTheme(name);
  redrawAll();
});
system.addEventListener("change", () => {
  if (chosen()) return;
  setTheme(system.matches ? "dark" : "light");
  redrawAll();
});
byId("keys").addEventListener("click", () => byId("help").showModal());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId(state.view === "live" ? "livepanel" : "panel").focus();
});
byId("find").addEventListener("input", (event) => {
  state.find = event.target.value.trim().toLowerCase();
  map.redraw();
});
byId("find").addEventListener("keydown", (event) => {
  const found = event.key === "Enter" && state.find && map.order.find((node) => node.name.toLowerCase().includes(state.find));
  if (found) openNode(found);
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
  if (event.key === "Escape" && isTyping && event.target.value) return;
  if (event.key === "Escape" && state.view === "live") live.back();
  else if (event.key === "Escape" && (state.pod || state.node)) close();
  else if (event.key === "/" && !isTyping) {
    event.preventDefault();
    (state.view === "live" ? byId("livesearch") : (byId("search") ?? byId("find"))).focus();
  } else if (event.key === "?" && !isTyping) byId("help").showModal();
});
addEventListener("hashchange", () => follow());

byId("views").hidden = live === null;
renderTop();
renderTiles();
renderSides();
follow(true);
