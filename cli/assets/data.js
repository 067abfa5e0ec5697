// The parsed report: nodes, pods, and the used amounts of each node on each side.

const PENDING = -1;
const ABSENT = -2;

const report = JSON.parse(byId("data").textContent, (_, value) => (typeof value === "string" ? clean(value) : value));
const resources = report.resources;
const lastSide = report.sides.length - 1;

// A single value applies to all sides.
const onSides = (list) => report.sides.map((_, side) => list[Math.min(side, list.length - 1)]);

const kinds = report.kinds.map(([requests, scheduler, priority, asks]) => ({ requests, scheduler, priority, asks }));

const nodes = report.nodes.map(([name, zone, cordons, taints, labels, offers], id) => ({
  id,
  name,
  zone,
  cordoned: report.sides.map((_, side) => (cordons >> side) % 2 === 1),
  isThere: onSides(offers).map((amounts) => amounts !== null),
  taints: taints.map((place) => report.texts[place]),
  labels: labels.map((place) => report.texts[place]),
  offered: onSides(offers).map((amounts) => amounts ?? resources.map(() => 0)),
  pods: report.sides.map(() => []),
  used: report.sides.map(() => new Float64Array(resources.length)),
}));

const pods = report.pods.map(([name, kindsOfSides, places, message, account], id) => ({
  id,
  name,
  kinds: onSides(kindsOfSides).map((kind) => kinds[kind]),
  kind: kinds[kindsOfSides[kindsOfSides.length - 1]],
  places,
  message: message < 0 ? "" : report.messages[message],
  account,
}));

const totals = report.sides.map(() => new Float64Array(resources.length));
const offered = report.sides.map(() => new Float64Array(resources.length));
for (const node of nodes) node.offered.forEach((amounts, side) => amounts.forEach((value, place) => (offered[side][place] += value)));
for (const pod of pods) {
  pod.places.forEach((place, side) => {
    if (place < 0) return;
    nodes[place].pods[side].push(pod);
    pod.kinds[side].requests.forEach((value, resource) => {
      nodes[place].used[side][resource] += value;
      totals[side][resource] += value;
    });
  });
}

const isPending = (pod) => pod.places[lastSide] === PENDING;
const pendingPods = pods.filter(isPending);
for (const pod of pendingPods) pod.cause = causeOf(pod.message) || "no reason was given";
const isGone = (pod) => pod.places[lastSide] === ABSENT;
const livePods = pods.filter((pod) => !isGone(pod));
const pendingOn = report.sides.map((_, side) => pods.filter((pod) => pod.places[side] === PENDING).length);
const nodesOn = report.sides.map((_, side) => nodes.filter((node) => node.isThere[side]).length);
// The pod is on another node than before.
const isNew = (pod) => lastSide > 0 && pod.places[0] !== pod.places[lastSide];

const shareOf = (node, resource, side) => {
  const all = node.offered[side][resource];
  const taken = node.used[side][resource];
  return all > 0 ? taken / all : taken > 0 ? Infinity : NaN;
};

const zones = report.zones.map((name, id) => ({
  name: name || "no zone",
  nodes: nodes.filter((node) => node.zone === id).sort((left, right) => collator.compare(left.name, right.name)),
}));
zones.sort((left, right) => collator.compare(left.name, right.name));

// Sends a request to the page's server.
const ask = async (path) => {
  const response = await fetch(path);
  const text = await response.text();
  if (!response.ok) throw new Error(clean(text) || `the server answers ${response.status}`);
  return JSON.parse(text, (_, value) => (typeof value === "string" ? clean(value) : value));
};

// The account of a pod: embedded, or requested once. `null` if there is none.
const asked = new Map();
const accountOf = (pod) => {
  if (pod.account >= 0) return Promise.resolve(report.accounts[pod.account]);
  if (!report.serving || isGone(pod)) return Promise.resolve(null);
  if (!asked.has(pod.id)) {
    const answer = ask(`account/${report.madeMs}/${pod.id}`);
    answer.catch(() => asked.delete(pod.id));
    asked.set(pod.id, answer);
  }
  return asked.get(pod.id);
};

// The result of each node: its group, total and missing resources.
const FITS = 0;
const verdictsOf = (account) => {
  const groups = [{ plugin: "", title: "fits", nodes: account.feasible.map(([node]) => node), lacks: "" }];
  const of = new Map();
  const highest = Math.max(...account.feasible.map(([, total]) => total ?? 0), 0);
  const lowest = Math.min(...account.feasible.map(([, total]) => total ?? 0));
  for (const [node, total, scores] of account.feasible) {
    const height = highest > lowest && total !== null ? (total - lowest) / (highest - lowest) : 1;
    of.set(node, { group: FITS, total, scores, height, lacks: "", nearness: 0 });
  }
  for (const { plugin, reasons, misses } of account.refused) {
    const group = groups.length;
    groups.push({ plugin, title: reasons.join(", "), nodes: misses.flatMap(([, found]) => found), lacks: misses[0][0], nearest: misses[0][1] });
    misses.forEach(([lacks, found], nearness) => found.forEach((node) => of.set(node, { group, total: null, scores: [], height: 0, lacks, nearness })));
  }
  return { account, groups, of };
};
