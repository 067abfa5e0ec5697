// The lists: pending pods by cause, all pods, all nodes.

const podColumns = (isOfNode) => {
  const columns = [{ title: "pod", width: "minmax(170px, 2fr)", class: "strong", value: (pod) => pod.name }];
  if (!isOfNode) columns.push({ title: "node", width: "minmax(110px, 1fr)", value: (pod) => (pod.places[lastSide] >= 0 ? nodes[pod.places[lastSide]].name : null), cell: (pod) => (pod.places[lastSide] >= 0 ? nodes[pod.places[lastSide]].name : h("span", { class: "dim" }, isGone(pod) ? "gone" : "pending")) });
  ["cpu", "memory"].forEach((resource, place) => columns.push({ title: resource, width: "84px", number: true, value: (pod) => pod.kind.requests[place], cell: (pod) => amount(resource, pod.kind.requests[place]) }));
  resources.forEach((resource, place) => {
    if (place > 2 && kinds.some((kind) => kind.requests[place] > 0)) {
      columns.push({ title: resource.replace(/^.*\//, ""), width: "84px", number: true, value: (pod) => pod.kind.requests[place], cell: (pod) => (pod.kind.requests[place] > 0 ? amount(resource, pod.kind.requests[place]) : "") });
    }
  });
  columns.push({ title: "priority", width: "92px", number: true, value: (pod) => pod.kind.priority, cell: (pod) => count(pod.kind.priority) });
  if (lastSide > 0 && !report.comparison) columns.push({ title: "since", width: "80px", class: "dim", value: (pod) => (isNew(pod) ? report.sides[lastSide] : report.sides[0]), cell: (pod) => (isPending(pod) ? "" : isNew(pod) ? "placed" : "before") });
  return columns;
};

const podTable = (label, isOfNode) => new Table(label, podColumns(isOfNode), openPod);

const pendingTable = () =>
  new Table(
    "Pending pods",
    [
      { title: "pod", width: "minmax(150px, 1.1fr)", class: "strong", value: (pod) => pod.name },
      ...podColumns(true).slice(1, 3),
      { title: "reason", width: "minmax(220px, 2.2fr)", class: "dim", value: (pod) => pod.cause },
    ],
    openPod,
  );

const nodeTable = () => {
  const columns = [
    { title: "node", width: "minmax(130px, 1.4fr)", class: "strong", value: (node) => node.name },
    { title: "zone", width: "minmax(80px, 1fr)", class: "dim", value: (node) => report.zones[node.zone] || "no zone" },
    { title: "pods", width: "68px", number: true, value: (node) => node.pods[state.side].length, cell: (node) => count(node.pods[state.side].length) },
  ];
  resources.forEach((resource, place) => {
    if (resource === "pods" || !offered.some((amounts) => amounts[place] > 0)) return;
    const title = resource.replace(/^.*\//, "");
    columns.push({ title, width: `${Math.max(84, title.length * 8 + 26)}px`, number: true, value: (node) => shareOf(node, place, state.side), cell: (node) => (node.offered[state.side][place] > 0 ? percent(shareOf(node, place, state.side)) : "") });
  });
  return new Table("Nodes", columns, openNode);
};

// The tabs: arrow keys choose, one stop of the Tab key.
const tabStrip = (label, prefix, items, openName, open) => {
  const tabs = items.map(({ name, title, found }, place) => {
    const key = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      open(items[(place + step + items.length) % items.length].name);
    };
    const isOpen = name === openName;
    return h("button", { type: "button", role: "tab", id: `${prefix}tab-${name}`, "aria-selected": isOpen ? "true" : "false", "aria-controls": `${prefix}sheet`, tabindex: isOpen ? 0 : -1, onclick: () => open(name), onkeydown: key }, title, " ", found === null ? null : h("span", { class: "count" }, count(found)));
  });
  return h("div", { class: "tablist", role: "tablist", "aria-label": label }, tabs);
};

// Pending pods by cause, the most frequent first. Each is a filter of the table below.
const causeList = () => {
  const causes = new Map();
  for (const pod of pendingPods) causes.set(pod.cause, (causes.get(pod.cause) ?? 0) + 1);
  if (causes.size < 2) return null;
  const sorted = [...causes].sort((left, right) => right[1] - left[1]);
  const item = ([cause, found], place) => {
    const press = () => {
      state.cause = state.cause === cause ? null : cause;
      render({ keepFocus: `cause${place}` });
    };
    return h("li", {}, h("button", { type: "button", class: "cause", id: `cause${place}`, "aria-pressed": state.cause === cause ? "true" : "false", onclick: press }, h("b", {}, count(found)), h("span", {}, cause)));
  };
  return withDigits(h("ul", { class: "causes", "aria-label": "Reasons; each shows only its pods" }, sorted.map(item)), sorted.map(([, found]) => found));
};

// The workloads with pods that are not created, each with the reason.
const notCreated = report.notCreated ?? [];
const notCreatedNote = () => (notCreated.length === 0 ? null : note("Pods that are not created", h("ul", { class: "plainlist" }, notCreated.map((words) => h("li", {}, words))), "warn"));
const both = (...parts) => {
  const shown = parts.filter(Boolean);
  return shown.length === 0 ? null : h("div", { class: "missing" }, shown);
};

const matching = (rows, words) => {
  const parts = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  return parts.length === 0 ? rows : rows.filter((row) => parts.every((part) => words(row).includes(part)));
};

const lists = {
  ...(report.comparison ? { changes: changeList } : {}),
  pending: {
    title: "Pending",
    all: pendingPods,
    make: pendingTable,
    head: () => both(notCreatedNote(), causeList()),
    rows: () => matching(state.cause === null ? pendingPods : pendingPods.filter((pod) => pod.cause === state.cause), (pod) => `${pod.name} ${pod.message}`.toLowerCase()),
    empty: notCreated.length > 0 ? "Every pod that exists has a node." : "Every pod has a node.",
  },
  pods: {
    title: "All pods",
    all: livePods,
    make: () => podTable("All pods", false),
    rows: () => matching(livePods, (pod) => `${pod.name} ${pod.places[lastSide] >= 0 ? nodes[pod.places[lastSide]].name : "pending"}`.toLowerCase()),
    empty: "There are no pods.",
  },
  nodes: {
    title: "Nodes",
    all: nodes,
    make: nodeTable,
    rows: () => matching(nodes, (node) => `${node.name} ${report.zones[node.zone]} ${node.taints.join(" ")} ${node.labels.join(" ")}`.toLowerCase()),
    empty: "There are no nodes.",
  },
};
