// The view of the running coordinator: its status, workers, queues and latencies, and the state of one pod.
// The page's server sends the requests.

const PERIOD_MS = 1000;
const POD_PERIOD_MS = 2000;

const live = (() => {
  const seen = { isOpen: false, now: null, problem: "", tab: "workers", search: "", pod: null, worker: null };
  // The open pod.
  const pod = { stand: null, problem: "", trace: null, traceProblem: "", attempt: 0, opened: new Set(), asked: "" };
  let timer = 0;
  let podTimer = 0;
  let table = null;

  const rateChart = new Chart("Decisions per second", (value) => (value === null ? "–" : short(value)), [{ name: "decisionsPerSecond", label: "decisions", color: "accent", isFilled: true }]);
  const queueChart = new Chart("Pods that wait", (value) => (value === null ? "–" : count(Math.round(value))), [
    { name: "active", label: "activeQ", color: "accent" },
    { name: "backingOff", label: "backoffQ", color: "violet" },
    { name: "unschedulable", label: "unschedulable", color: "warn" },
    { name: "gated", label: "gated", color: "faint" },
  ], 1);
  const latencyChart = new Chart("Latency", duration, [
    { name: "attemptP50Us", label: "attempt p50", color: "teal" },
    { name: "attemptP99Us", label: "p99", color: "accent" },
    { name: "podP99Us", label: "queue to node p99", color: "violet" },
  ]);
  const charts = [rateChart, queueChart, latencyChart];

  const leader = () => seen.now?.report.coordinators.map(({ status }) => status).find((status) => status?.leading);
  const worst = () => (seen.problem ? [{ what: `flotilla ui does not answer: ${seen.problem}`, next: "see that it runs, and load this page again", severe: true }] : (seen.now?.report.problems ?? []));
  const last = (name) => {
    const line = seen.now?.lines[name] ?? [];
    return line.length > 0 ? line[line.length - 1] : null;
  };

  // Requests

  const schedule = () => {
    clearTimeout(timer);
    if (seen.isOpen && !document.hidden) timer = setTimeout(poll, PERIOD_MS);
  };
  const poll = async () => {
    clearTimeout(timer);
    try {
      seen.now = await ask("live");
      seen.problem = "";
    } catch (error) {
      seen.problem = error.message;
    }
    if (!seen.isOpen) return;
    renderNow();
    schedule();
  };

  const parts = () => seen.pod.split("/");
  const askPod = async () => {
    clearTimeout(podTimer);
    const name = seen.pod;
    try {
      const stand = await ask(`live/pods/${parts().map(encodeURIComponent).join("/")}`);
      if (seen.pod !== name) return;
      Object.assign(pod, { stand, problem: "" });
      // A new attempt has a new trace.
      const key = `${stand.attempts} ${stand.state}`;
      if (pod.asked !== "" && pod.asked !== key) setTimeout(() => seen.pod === name && askTrace(), 2 * PERIOD_MS);
      pod.asked = key;
    } catch (error) {
      if (seen.pod !== name) return;
      pod.problem = error.message;
    }
    renderPod();
    const isSettled = pod.stand?.state === "Bound" || pod.stand?.state === "NotOurs";
    if (seen.isOpen && !isSettled && !document.hidden) podTimer = setTimeout(askPod, POD_PERIOD_MS);
  };
  const askTrace = async () => {
    const name = seen.pod;
    const attempt = pod.attempt > 0 ? `?attempt=${pod.attempt}` : "";
    try {
      const trace = await ask(`live/traces/${parts().map(encodeURIComponent).join("/")}${attempt}`);
      if (seen.pod !== name) return;
      if (trace.id !== pod.trace?.id) pod.opened = new Set();
      Object.assign(pod, { trace, traceProblem: "" });
    } catch (error) {
      if (seen.pod !== name) return;
      Object.assign(pod, { trace: null, traceProblem: error.message });
    }
    renderTrace();
  };

  // Drawing

  const tile = (name, big, small, look = "") => h("div", { class: `tile ${look}` }, h("span", { class: "name" }, name), h("span", { class: "big" }, big, h("small", {}, small)));
  const renderTiles = () => {
    const status = leader();
    const problems = worst();
    const isWell = seen.now !== null && !problems.some(({ severe }) => severe);
    const host = status ? status.identity.replace(/_[^_]*$/, "") : "none is known";
    const queue = status?.queue ?? { active: 0, backingOff: 0, unschedulable: 0, gated: 0, binding: 0, preparing: 0 };
    const ready = status?.workers.filter((worker) => worker.ready).length ?? 0;
    const number = (value) => (status ? count(value) : "–");
    const rate = last("decisionsPerSecond");
    byId("livetiles").replaceChildren(
      tile("leader", isWell ? "healthy" : seen.now === null && !seen.problem ? "asking" : "not healthy", host, isWell ? "well" : "warn"),
      tile("workers ready", status ? count(ready) : "–", status ? `of ${count(status.workers.length + (status.moreWorkers ?? 0))}` : "", status && ready < status.workers.length ? "warn" : ""),
      tile("activeQ", number(queue.active), status ? `${count(queue.binding + queue.preparing)} binding` : ""),
      tile("backoffQ", number(queue.backingOff), ""),
      tile("unschedulable", number(queue.unschedulable), "", queue.unschedulable > 0 ? "warn" : ""),
      tile("gated", number(queue.gated), ""),
      tile("decisions per second", rate === null ? "–" : short(rate), status ? `${count(status.decisions.total)} in all` : ""),
      tile("attempt p99", duration(last("attemptP99Us")), last("attemptP50Us") === null ? "" : `p50 ${duration(last("attemptP50Us"))}`),
    );
  };

  const renderProblems = () => {
    const items = worst().map(({ what, next, severe }) => h("li", { class: `note ${severe ? "warn" : ""}` }, h("b", {}, what), next));
    byId("problems").replaceChildren(...items);
  };

  const workerLook = (worker) => h("span", { class: `word ${worker.ready ? "good" : "warn"}` }, worker.ready ? "ready" : worker.why?.startsWith("in quarantine") ? "quarantine" : "not ready");
  const micros = (value) => (value === undefined || value === null ? "" : duration(value));
  const lists = {
    workers: {
      title: "Workers",
      all: () => leader()?.workers ?? [],
      key: (worker) => worker.name,
      words: (worker) => `${worker.name} ${worker.ready ? "ready" : "not ready"} ${worker.why ?? ""}`,
      empty: () => (seen.now ? "No workers are known; the leader evaluates all nodes." : "Asking …"),
      make: () =>
        new Table("Workers", [
          { title: "worker", width: "minmax(130px, 1.4fr)", class: "strong", value: (worker) => worker.name },
          { title: "state", width: "96px", value: (worker) => (worker.ready ? 1 : 0), cell: workerLook },
          { title: "nodes", width: "70px", number: true, value: (worker) => worker.nodes, cell: (worker) => count(worker.nodes) },
          { title: "in flight", width: "78px", number: true, value: (worker) => worker.inFlight, cell: (worker) => count(worker.inFlight) },
          { title: "p50", width: "82px", number: true, value: (worker) => worker.roundTripP50Us ?? null, cell: (worker) => micros(worker.roundTripP50Us) },
          { title: "p99", width: "82px", number: true, value: (worker) => worker.roundTripP99Us ?? null, cell: (worker) => micros(worker.roundTripP99Us) },
        ], (worker) => openWorker(worker.name)),
    },
    waiting: {
      title: "Waiting",
      all: () => leader()?.classes ?? [],
      key: (row) => `${row.namespace}/${row.pod}/${row.schedulerName}`,
      words: (row) => `${row.namespace}/${row.pod} ${row.schedulerName}`,
      empty: () => "No pod waits.",
      make: () =>
        new Table("Waiting pods, by class", [
          { title: "pods like", width: "minmax(150px, 1.6fr)", class: "strong", value: (row) => `${row.namespace}/${row.pod}` },
          { title: "active", width: "76px", number: true, value: (row) => row.active, cell: (row) => count(row.active) },
          { title: "backoff", width: "80px", number: true, value: (row) => row.backingOff, cell: (row) => count(row.backingOff) },
          { title: "unschedulable", width: "118px", number: true, value: (row) => row.unschedulable, cell: (row) => count(row.unschedulable) },
          { title: "gated", width: "70px", number: true, value: (row) => row.gated, cell: (row) => count(row.gated) },
        ], (row) => openLive(`${row.namespace}/${row.pod}`)),
    },
    slowest: {
      title: "Slowest",
      all: () => leader()?.slowestEvaluations ?? [],
      key: (row) => `${row.class} ${row.tookMs}`,
      words: (row) => `${row.namespace}/${row.pod ?? ""} ${row.lastWorker}`,
      empty: () => "Nothing was evaluated in the last five minutes.",
      make: () =>
        new Table("Slowest evaluations of the last five minutes", [
          { title: "pod", width: "minmax(140px, 1.5fr)", class: "strong", value: (row) => (row.pod ? `${row.namespace}/${row.pod}` : `class ${row.class}`) },
          { title: "took", width: "84px", number: true, value: (row) => row.tookMs, cell: (row) => span(row.tookMs) },
          { title: "ago", width: "110px", number: true, value: (row) => row.agoMs, cell: (row) => span(row.agoMs) },
          { title: "last worker", width: "minmax(120px, 1fr)", class: "dim", value: (row) => row.lastWorker },
        ], (row) => row.pod && openLive(`${row.namespace}/${row.pod}`)),
    },
  };

  const openWorker = (name) => {
    seen.worker = name;
    render("livename");
  };
  const openLive = (name) => go(`#live=${encodeURIComponent(name)}`);
  const back = () => {
    if (seen.worker) {
      seen.worker = null;
      render("table");
    } else go("#live");
  };

  const podSearch = () => {
    const input = h("input", { type: "search", id: "livesearch", placeholder: "Open a pod", "aria-label": "Open a pod: namespace/name, then Enter", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("keydown", (event) => {
      const name = input.value.trim().replace(/^pod\//, "");
      if (event.key === "Enter" && name) openLive(name.includes("/") ? name : `default/${name}`);
    });
    return input;
  };

  const renderList = () => {
    const list = lists[seen.tab];
    table = list.make();
    const open = (name) => {
      seen.tab = name;
      render(`livetab-${name}`);
    };
    const tabs = tabStrip("Lists of the coordinator", "live", Object.entries(lists).map(([name, { title, all }]) => ({ name, title, found: all().length })), seen.tab, open);
    const none = h("p", { class: "empty", hidden: true });
    const sheet = h("div", { class: "sheet fixed", id: "livesheet", role: "tabpanel", "aria-labelledby": `livetab-${seen.tab}` }, table.element, none);
    byId("livepanel").replaceChildren(h("div", { class: "tabs" }, tabs, podSearch()), sheet);
    Object.assign(seen, { none });
    fillList(true);
  };
  const fillList = (isFirst) => {
    const list = lists[seen.tab];
    const rows = list.all();
    if (isFirst) table.show(rows);
    else table.renew(rows, list.key);
    table.element.hidden = rows.length === 0;
    seen.none.hidden = rows.length > 0;
    seen.none.textContent = list.empty();
    for (const [name, { all }] of Object.entries(lists)) {
      const mark = byId(`livetab-${name}`)?.querySelector(".count");
      if (mark) mark.textContent = count(all().length);
    }
  };

  const factList = (facts) => h("dl", { class: "facts wide" }, facts.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

  const workerSheet = () => {
    const worker = leader()?.workers.find(({ name }) => name === seen.worker);
    const detail = h("div", { class: "detail" }, h("h2", { tabindex: -1, id: "livename" }, seen.worker));
    if (!worker) {
      detail.append(note("", "The leader does not know this worker any more."));
      return [detail];
    }
    detail.append(h("div", { class: "chips" }, chip(worker.ready ? "ready" : "not ready", worker.ready ? "good" : "warn"), chip(counted(worker.nodes, "node")), worker.version ? chip(`version ${worker.version}`) : null));
    if (worker.why) detail.append(note("Why it gets no requests", worker.why, "warn"));
    const { configuration } = leader();
    const until = worker.certificateNotAfter ? `${worker.certificateNotAfter}, in ${span(new Date(worker.certificateNotAfter) - Date.now())}` : null;
    detail.append(
      factList([
        ["configuration", worker.generation === configuration.generation ? `generation ${worker.generation}, in force` : `generation ${worker.generation}; ${configuration.generation} is in force`],
        ["requests in flight", count(worker.inFlight)],
        ["oldest request", worker.oldestMs > 0 ? span(worker.oldestMs) : "nothing"],
        ["changes behind", count(worker.revisionsBehind)],
        ["round trip, half of the last 256", micros(worker.roundTripP50Us)],
        ["round trip, 99 of 100", micros(worker.roundTripP99Us)],
        ["certificate ends", until],
      ]),
    );
    return [detail];
  };

  const STATES = {
    Active: (stand) => [`in activeQ, ${stand.ahead === 0 ? "next" : `${count(stand.ahead)} ahead of it`}`, "accent"],
    BackingOff: (stand) => [`in backoffQ for another ${span(stand.leftMs)}`, "warn"],
    Unschedulable: (stand) => [`unschedulable for ${span(stand.forMs)}`, "warn"],
    Gated: () => ["gated", "warn"],
    Preparing: (stand) => [`its volumes are prepared for ${stand.node}`, "good"],
    Binding: (stand) => [`being bound to ${stand.node}`, "good"],
    Bound: (stand) => [`on ${stand.node}`, "good"],
    NotOurs: (stand) => [`not scheduled here: ${stand.why}`, ""],
  };

  const decisionTable = (nodes) => {
    const plugins = [...new Set(nodes.candidates.flatMap(({ scores }) => (scores ?? []).map(({ plugin }) => plugin)))];
    const score = (row, plugin) => row.scores?.find((known) => known.plugin === plugin)?.weighted ?? null;
    const columns = [
      { title: "node", width: "minmax(120px, 1fr)", class: "strong", value: (row) => row.node },
      { title: "total", width: "80px", number: true, value: (row) => row.total ?? null, cell: (row) => (row.total === undefined ? "" : count(row.total)) },
      ...plugins.map((plugin) => {
        const title = plugin.replace(/^NodeResources/, "");
        return { title, width: `${Math.max(84, title.length * 7 + 28)}px`, number: true, value: (row) => score(row, plugin), cell: (row) => (score(row, plugin) === null ? "" : count(score(row, plugin))) };
      }),
    ];
    const open = (row) => nodeNames.has(row.node) && openNode(nodeNames.get(row.node));
    return new Table("The best nodes of the decision", columns, open, { column: 1, down: true }).show(nodes.candidates).limit(10).element;
  };

  const decisionParts = (decision) => {
    const facts = h("div", { class: "detail" }, h("h3", {}, "The decision"));
    const { nodes } = decision;
    const runner = nodes?.runnerUp ? `, ${nodes.runnerUp.margin === undefined ? "before" : nodes.runnerUp.margin === 0 ? "as many as" : `${count(nodes.runnerUp.margin)} ahead of`} ${nodes.runnerUp.node}` : "";
    facts.append(
      factList([
        ["node", `${decision.node}, total ${count(decision.total)}${runner}`],
        ["when", `${span(decision.agoMs)} ago, attempt ${count(decision.attempt)}, after ${span(decision.waitedMs)} of waiting`],
        ["cluster", `revision ${count(decision.revision)}`],
        ["nodes", nodes ? `${count(nodes.feasible)} of ${count(nodes.all)} were feasible${nodes.tied > 1 ? `; ${count(nodes.tied)} had the highest total` : ""}` : null],
        ["unknown", decision.unknown],
        ["preemptions", (decision.preemptions ?? []).map(({ node, victims }) => `${victims.join(", ")} on ${node}`).join("; ")],
      ]),
    );
    if (nodes?.refused?.length > 0) facts.append(h("ul", { class: "refusals" }, nodes.refused.map((refusal) => h("li", {}, h("b", {}, count(refusal.nodes ?? 0)), ` ${refusal.reasons.join(", ")} `, h("span", { class: "dim" }, refusal.plugin ?? "")))));
    return nodes?.candidates.length > 0 ? [facts, decisionTable(nodes)] : [facts];
  };

  const standSheet = () => {
    const detail = h("div", { class: "detail" });
    const title = heading(seen.pod);
    title.id = "livename";
    detail.append(title);
    const { stand } = pod;
    if (pod.problem) detail.append(note("Its state is unknown", pod.problem, "warn"));
    if (!stand) {
      if (!pod.problem) detail.append(note("", "Asking the coordinator …"));
      return [detail];
    }
    const [words, look] = STATES[stand.state]?.(stand) ?? ["the coordinator knows no such pod", "warn"];
    const chips = [chip(words, look)];
    if (stand.attempts > 0) chips.push(chip(counted(stand.attempts, "attempt")));
    if (stand.schedulerName) chips.push(chip(`scheduler ${stand.schedulerName}`));
    if (stand.priority) chips.push(chip(`priority ${count(stand.priority)}`));
    detail.append(h("div", { class: "chips" }, chips));
    if (stand.state === "Gated") detail.append(note(`${stand.plugin ?? "A plugin that is not built"} gates it`, stand.message, "warn"));
    if (stand.lastMessage && stand.state !== "Bound") detail.append(note("Why it stays pending", stand.lastMessage, "warn"));
    for (const { plugin, waitsFor } of stand.rejectedBy ?? []) {
      detail.append(note(`${plugin} refused it`, waitsFor.length > 0 ? `It is tried again after ${waitsFor.join(", ")}, or in ${span(stand.flushInMs)}.` : `It is tried again in ${span(stand.flushInMs)}.`));
    }
    const known = podNames.get(seen.pod);
    if (known) detail.append(h("p", { class: "chips" }, h("button", { type: "button", class: "chip", onclick: () => openPod(known) }, "The result of each node →")));
    if (stand.decisionWithheld) detail.append(note("How it got its node", stand.decisionWithheld));
    return stand.decision ? [detail, ...decisionParts(stand.decision)] : [detail];
  };

  const renderSheet = (parts, title) => {
    const top = byId("livesheet")?.scrollTop ?? 0;
    const button = h("button", { type: "button", class: "plain back", id: "liveback", onclick: back }, `← ${title}`);
    const hadFocus = document.activeElement?.id;
    byId("livepanel").replaceChildren(h("div", { class: "tabs" }, button, podSearch()), h("div", { class: "sheet", id: "livesheet" }, parts));
    byId("livesheet").scrollTop = top;
    if (hadFocus === "liveback" || hadFocus === "livename") byId(hadFocus)?.focus({ preventScroll: true });
  };
  // Updates must not interrupt typing or choosing.
  const isBusy = () => byId("livepanel").contains(document.activeElement) && ["livesearch"].includes(document.activeElement.id);
  const renderPod = () => {
    if (seen.pod && seen.isOpen && !isBusy()) renderSheet(standSheet(), "Coordinator");
  };

  const attemptChoice = () => {
    const most = Math.min(pod.stand?.attempts ?? 0, 20);
    if (most < 2) return null;
    const options = [h("option", { value: 0, selected: pod.attempt === 0 }, "last attempt"), ...Array.from({ length: most }, (_, place) => h("option", { value: place + 1, selected: pod.attempt === place + 1 }, `attempt ${place + 1}`))];
    return h("select", { class: "plain", "aria-label": "Attempt", onchange: (event) => {
      pod.attempt = Number(event.target.value);
      askTrace();
    } }, options);
  };
  const renderTrace = () => {
    if (!seen.pod || !seen.isOpen) return;
    const { trace } = pod;
    const title = h("h2", {}, "Trace");
    const about = trace ? h("span", { class: "legend" }, `${counted(trace.rows.length, "span")} in ${duration(trace.takesUs)} · ${new Date(trace.fromUs / 1000).toISOString().replace("T", " ").replace("Z", " UTC")}`) : h("span", { class: "legend" });
    const again = h("button", { type: "button", class: "plain", onclick: () => askTrace() }, "Read again");
    const body = trace ? waterfall(trace, pod.opened) : h("p", { class: "empty" }, pod.traceProblem || "Asking Jaeger …");
    byId("livemain").replaceChildren(h("div", { class: "bar" }, title, about, ...[attemptChoice(), again].filter(Boolean)), h("div", { class: "traced" }, body));
  };
  const renderCharts = () => {
    if (byId("livemain").querySelector(".charts")) return;
    const place = h("span", { class: "legend" }, "the last ten minutes, as long as this page was open");
    byId("livemain").replaceChildren(h("div", { class: "bar" }, h("h2", {}, "Scheduling"), place), h("div", { class: "charts" }, charts.map(({ element }) => element)));
  };

  const renderSubject = () => {
    if (seen.now) byId("subject").replaceChildren(h("b", {}, seen.now.place));
  };
  const renderNow = () => {
    renderSubject();
    renderTiles();
    renderProblems();
    if (seen.pod) return;
    if (seen.now) charts.forEach((chart) => chart.show(seen.now.lines));
    if (seen.worker) renderSheet(workerSheet(), lists.workers.title);
    else if (table) fillList(false);
  };
  const render = (focus = null) => {
    renderSubject();
    renderTiles();
    renderProblems();
    if (seen.pod) {
      renderSheet(standSheet(), "Coordinator");
      renderTrace();
    } else {
      renderCharts();
      if (seen.now) charts.forEach((chart) => chart.show(seen.now.lines));
      if (seen.worker) renderSheet(workerSheet(), lists.workers.title);
      else renderList();
    }
    if (focus === "table") table.element.focus({ preventScroll: true });
    else if (focus) byId(focus)?.focus({ preventScroll: true });
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !seen.isOpen) return;
    poll();
    if (seen.pod) askPod();
  });

  return {
    // Shows the coordinator, or one pod.
    open(name, isFirst) {
      const had = seen.pod;
      Object.assign(seen, { pod: name, worker: null });
      clearTimeout(podTimer);
      if (name && name !== had) Object.assign(pod, { stand: null, problem: "", trace: null, traceProblem: "", attempt: 0, opened: new Set(), asked: "" });
      const wasOpen = seen.isOpen;
      seen.isOpen = true;
      if (!name) table = null;
      render(isFirst ? null : name ? "livename" : had ? "table" : null);
      if (name) {
        askPod();
        askTrace();
        say(`${name} is open`);
      }
      if (!wasOpen || !seen.now) poll();
    },
    close() {
      seen.isOpen = false;
      clearTimeout(timer);
      clearTimeout(podTimer);
    },
    // Goes back one step, if possible.
    back() {
      if (seen.pod || seen.worker) back();
    },
    repaint() {
      if (!seen.isOpen) return;
      charts.forEach((chart) => chart.repaint());
      render();
    },
  };
})();
