// The sheet of one pod or one node.

const chip = (text, look = "") => h("span", { class: `chip ${look}` }, text);
const note = (title, text, look = "") => h("div", { class: `note ${look}` }, title ? h("b", {}, title) : null, text);
const swatch = (color) => {
  const element = h("i", { class: "swatch", "aria-hidden": "true" });
  element.style.background = color;
  return element;
};

const heading = (name) => {
  const slash = name.indexOf("/");
  return h("h2", { tabindex: -1, id: "subjectname" }, slash < 0 ? name : [h("small", {}, name.slice(0, slash + 1)), name.slice(slash + 1)]);
};

const requestsOf = (pod) =>
  pod.kind.requests.flatMap((value, place) => (value > 0 && resources[place] !== "pods" ? [`${amount(resources[place], value)} ${resources[place]}`] : []));

const nodeChip = (place, words) => h("button", { type: "button", class: "chip good", onclick: () => openNode(nodes[place]) }, `${words} ${nodes[place].name}`);

const placeChips = (pod) => {
  const place = pod.places[lastSide];
  const words = !isNew(pod) ? "on" : pod.places[0] >= 0 ? "moved to" : "placed on";
  const chips = [place >= 0 ? nodeChip(place, words) : chip(isGone(pod) ? "gone" : "pending", "warn")];
  if (lastSide > 0 && pod.places[0] >= 0 && pod.places[0] !== place) chips.push(chip(`${report.sides[0]} on ${nodes[pod.places[0]].name}`));
  return chips;
};

// The sheet of a pod; `verdicts` is null without an account.
const podSheet = (pod, verdicts, problem) => {
  const { scheduler, priority, asks } = pod.kind;
  const facts = [...requestsOf(pod), ...asks, ...(priority !== 0 ? [`priority ${count(priority)}`] : []), ...(scheduler !== "default-scheduler" ? [`scheduler ${scheduler}`] : [])];
  const detail = h("div", { class: "detail" }, heading(pod.name), h("div", { class: "chips" }, placeChips(pod), facts.map((fact) => chip(fact))));
  if (canAsk && isPending(pod)) detail.append(h("p", { class: "chips" }, h("button", { type: "button", class: "chip", id: "askpod", onclick: () => go(`#ask=${encodeURIComponent(pod.name)}`) }, "Change it and ask again →")));
  if (live && !isGone(pod)) detail.append(h("p", { class: "chips" }, h("button", { type: "button", class: "chip", onclick: () => go(`#live=${encodeURIComponent(pod.name)}`) }, "Its state in the queue, and its trace →")));
  if (problem) detail.append(note("", problem));
  if (!verdicts) {
    if (pod.message) detail.append(note("Why it stays pending", pod.message, "warn"));
    return [detail];
  }
  detail.append(...accountNotes(verdicts, isPending(pod), pod.message || verdicts.account.message || "none: a node is feasible"));
  if (pod.places[lastSide] >= 0) detail.append(h("p", { class: "chips dim" }, "Evaluated as if it had just been removed from its node; all other pods stay."));
  return [detail, ...verdictParts(verdicts)];
};

// Notes about the pod as a whole.
const accountNotes = ({ account }, pending, message) => {
  const notes = [];
  if (account.gate) notes.push(note(`${account.gate[0]} gates it`, account.gate[1], "warn"));
  else if (account.error) notes.push(note("The attempt fails", account.error, "warn"));
  else if (pending && message) notes.push(note("Why it stays pending", message, "warn"));
  if (account.advice) notes.push(note("What would help", account.advice, "help"));
  if (account.preemption) notes.push(preemptionNote(account.preemption));
  return notes;
};

// The results of the nodes, by reason and individually.
const verdictParts = (verdicts) => {
  const { groups } = verdicts;
  if (verdicts.of.size === 0) return [];
  const table = verdictTable(verdicts);
  return [
    h("div", { class: "detail" }, h("h3", {}, `Results of ${counted(verdicts.of.size, "node")}`), stack(groups), groupList(groups)),
    table.show([...verdicts.of].filter(([, verdict]) => state.group === null || verdict.group === state.group)).limit(12).element,
  ];
};

const preemptionNote = ({ message, node, candidates }) => {
  const chosen = candidates.find(([place]) => place === node);
  const victims = chosen ? ` ${chosen[1].slice(0, 8).join(", ")}${chosen[1].length > 8 ? ` and ${chosen[1].length - 8} more` : ""} would have to go.` : "";
  return note("Preemption", message + (victims && `.${victims}`).replace("..", "."));
};

const stack = (groups) => {
  const bar = h("div", { class: "stack", "aria-hidden": "true" });
  groups.forEach((group, place) => {
    if (group.nodes.length === 0) return;
    const part = h("i", {});
    part.style.background = place === FITS ? fitColor(1) : reasonColor(place);
    part.style.flexGrow = group.nodes.length;
    bar.append(part);
  });
  return bar;
};

const nearest = (group) => {
  if (!group.lacks) return null;
  const others = group.nearest.length > 1 ? ` and ${count(group.nearest.length - 1)} more` : "";
  return h("small", {}, `Nearest: ${nameAt(group.nearest[0])}${others}, with ${group.lacks}`);
};

const groupList = (groups) => {
  const item = (group, place) => {
    if (group.nodes.length === 0) return null;
    const press = () => {
      state.group = state.group === place ? null : place;
      render({ keepFocus: `group${place}` });
    };
    const words = place === FITS ? "feasible" : group.title || "refused";
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "group", id: `group${place}`, "aria-pressed": state.group === place ? "true" : "false", onclick: press },
        swatch(place === FITS ? fitColor(1) : reasonColor(place)),
        h("b", {}, count(group.nodes.length)),
        h("span", {}, words, group.plugin ? h("span", { class: "dim" }, ` ${group.plugin}`) : null, nearest(group)),
      ),
    );
  };
  return withDigits(h("ul", { class: "groups" }, groups.map(item)), groups.map(({ nodes: found }) => found.length));
};

const verdictTable = ({ account, groups, of }) => {
  const color = ([, verdict]) => (verdict.group === FITS ? fitColor(verdict.height) : reasonColor(verdict.group));
  const columns = [
    { title: "node", width: "minmax(120px, 1fr)", class: "strong", value: ([node]) => nameAt(node), cell: (row) => [swatch(color(row)), nameAt(row[0])] },
  ];
  if (account.feasible.length > 0) {
    columns.push({ title: "total", width: "80px", number: true, value: ([, verdict]) => verdict.total, cell: ([, { total }]) => (total === null ? "" : count(total)) });
  }
  if (account.refused.length > 0) {
    columns.push(
      { title: "result", width: "minmax(180px, 1.6fr)", value: ([, verdict]) => (verdict.group === FITS ? "feasible" : groups[verdict.group].title) },
      { title: "missing", width: "minmax(150px, 1.3fr)", class: "dim", value: ([, verdict]) => verdict.nearness, cell: ([, verdict]) => verdict.lacks },
    );
  }
  account.plugins.forEach((plugin, place) => {
    const title = plugin.replace(/^NodeResources/, "");
    if (account.feasible.some(([, , scores]) => scores[place])) {
      columns.push({ title, width: `${Math.max(84, title.length * 7 + 28)}px`, number: true, value: ([, verdict]) => verdict.scores[place] ?? null, cell: ([, verdict]) => (verdict.scores[place] === undefined || verdict.scores[place] === null ? "" : count(verdict.scores[place])) });
    }
  });
  const order = account.feasible.length > 0 ? { column: 1, down: true } : { column: 2, down: false };
  return new Table("The result of each node", columns, ([node]) => nodes[node] && openNode(nodes[node]), order);
};

// A bar of used amounts, with the amount before in a lighter color.
const meter = (share, was = null) => {
  const bar = h("span", { class: "meter", "aria-hidden": "true" });
  const fill = (value, look, color) => {
    const part = h("i", { class: look });
    part.style.width = `${Math.max(0, Math.min(1, value || 0)) * 100}%`;
    if (color) part.style.background = color;
    bar.append(part);
  };
  fill(share, "", useColor(Math.max(share || 0, 0.2)));
  if (was !== null && was > 0 && share > was) fill(was, "was");
  return bar;
};

const nodeSheet = (node) => {
  const found = node.pods[state.side];
  const chips = [chip(zones.find((zone) => zone.nodes.includes(node)).name), chip(counted(found.length, "pod"))];
  if (!node.isThere[state.side]) chips.push(chip(`not there ${report.sides[state.side]}`, "warn"));
  if (node.cordoned[state.side]) chips.push(chip("cordoned", "warn"));
  chips.push(...node.taints.map((taint) => chip(`taint ${taint}`, "warn")));
  const use = h("div", { class: "use" });
  resources.forEach((resource, place) => {
    if (!(node.offered[state.side][place] > 0) && !(node.used[state.side][place] > 0)) return;
    const share = shareOf(node, place, state.side);
    const was = state.side > 0 ? shareOf(node, place, 0) : null;
    use.append(h("span", { title: resource }, resource), meter(share, was), h("span", { class: "dim" }, `${amount(resource, node.used[state.side][place])} of ${amount(resource, node.offered[state.side][place])} · ${percent(share)}`));
  });
  const detail = h("div", { class: "detail" }, heading(node.name), h("div", { class: "chips" }, chips), h("h3", {}, lastSide > 0 ? `In use ${report.sides[state.side]}` : "In use"), use);
  if (node.labels.length > 0) detail.append(h("h3", {}, "Labels"), h("div", { class: "chips" }, node.labels.map((label) => chip(label))));
  if (canAsk) {
    const change = (what) => () => {
      changeNode(node.name, what);
      go("#ask");
    };
    const cordon = node.cordoned[lastSide] ? "not cordoned" : "cordoned";
    const buttons = [["Ask with it removed →", "removed"], [`Ask with it ${cordon} →`, cordon]].map(([words, what]) => h("button", { type: "button", class: "chip", onclick: change(what) }, words));
    detail.append(h("h3", {}, "What if"), h("div", { class: "chips" }, buttons));
  }
  detail.append(h("h3", {}, `Pods on it${lastSide > 0 ? ` ${report.sides[state.side]}` : ""}`));
  if (found.length === 0) return [detail, h("p", { class: "empty" }, "No pod is on this node.")];
  return [detail, podTable(`Pods on ${node.name}`, true).show(found).limit(16).element];
};
