// The effect of a change on pods: the changes, the first bottleneck, and the pods with another outcome.

const CHANGES = {
  pending: ["stay pending", "stays pending", "warn"],
  moved: ["move", "moves", "accent"],
  placed: ["get a node", "gets a node", "good"],
  new: ["are new", "is new", "good"],
  gone: ["are gone", "is gone", "faint"],
  elsewhere: ["have no node yet, and would go to another one", "has no node yet, and would go to another one", "soft"],
};

const comparison = report.comparison ?? { changes: [], pods: [], preemptions: [] };
const changed = (() => {
  const known = new Map(pods.map((pod) => [pod.name, pod]));
  return comparison.pods.flatMap(([name, word]) => (known.has(name) ? [{ pod: known.get(name), word, place: Object.keys(CHANGES).indexOf(word) }] : []));
})();
const preemptedBy = new Map(comparison.preemptions.map(([pod, , by]) => [pod, by]));

const placeOn = (pod, side) => (pod.places[side] >= 0 ? nodes[pod.places[side]].name : pod.places[side] === PENDING ? "pending" : null);
const placeCell = (pod, side) => (pod.places[side] >= 0 ? nodes[pod.places[side]].name : h("span", { class: "dim" }, pod.places[side] === PENDING ? "pending" : "–"));

const changeTable = () =>
  new Table(
    "Pods with another outcome",
    [
      { title: "pod", width: "minmax(150px, 1.5fr)", class: "strong", value: ({ pod }) => pod.name },
      { title: "change", width: "104px", value: ({ place }) => place, cell: ({ word }) => h("span", { class: `word ${CHANGES[word][2]}` }, word) },
      { title: "before", width: "minmax(88px, 1fr)", value: ({ pod }) => placeOn(pod, 0), cell: ({ pod }) => placeCell(pod, 0) },
      { title: "after", width: "minmax(88px, 1fr)", value: ({ pod }) => placeOn(pod, lastSide), cell: ({ pod }) => placeCell(pod, lastSide) },
    ],
    ({ pod }) => openPod(pod),
  );

// Pods by outcome, each a filter of the table below, after the changes and the first bottleneck.
const changeHead = () => {
  const head = h("div", { class: "changes" });
  if (comparison.changes.length > 0) head.append(h("ul", { class: "chips plainlist", "aria-label": "The changes" }, comparison.changes.map((words) => h("li", { class: "chip" }, words))));
  if (comparison.bottleneck) {
    const [name, message, advice] = comparison.bottleneck;
    const pod = pods.find((known) => known.name === name);
    const link = pod ? h("button", { type: "button", class: "link", onclick: () => openPod(pod) }, name) : name;
    head.append(note(["First bottleneck: ", link], [message, advice ? h("span", { class: "advice" }, advice) : null], "warn"));
  }
  if (notCreated.length > 0) head.append(notCreatedNote());
  const counts = Object.keys(CHANGES).map((word) => [word, changed.filter((row) => row.word === word).length]).filter(([, found]) => found > 0);
  const item = ([word, found]) => {
    const press = () => {
      state.cause = state.cause === word ? null : word;
      render({ keepFocus: `change-${word}` });
    };
    const [many, one, look] = CHANGES[word];
    return h("li", {}, h("button", { type: "button", class: "cause", id: `change-${word}`, "aria-pressed": state.cause === word ? "true" : "false", onclick: press }, h("b", { class: look }, count(found)), h("span", {}, `${found === 1 ? "pod" : "pods"} that ${found === 1 ? one : many}`)));
  };
  if (counts.length > 0) head.append(withDigits(h("ul", { class: "causes", "aria-label": "Changes; each shows only its pods" }, counts.map(item)), counts.map(([, found]) => found)));
  return head;
};

const changeList = {
  title: "Changes",
  all: changed,
  make: changeTable,
  head: changeHead,
  rows: () => matching(state.cause === null ? changed : changed.filter(({ word }) => word === state.cause), ({ pod, word }) => `${pod.name} ${word} ${placeOn(pod, 0)} ${placeOn(pod, lastSide)}`.toLowerCase()),
  empty: "No placement differs.",
};
