// The sheet for questions: new pods, changes of nodes, and the results of the nodes.

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: new
spec:
  containers:
  - name: main
    resources:
      requests:
        cpu: 500m
        memory: 512Mi
`;

const asking = { text: EXAMPLE, changes: new Map(), pod: null, note: "", wrong: [], answer: null, shown: null, isBusy: false };

const forgetAnswer = () => Object.assign(asking, { wrong: [], answer: null, shown: null, note: "" });

const isTakenAway = (node) => state.tab === "ask" && asking.changes.get(node.name) === "removed";

// Opens the sheet with the manifest of a pending pod.
const askAbout = async (name) => {
  if (asking.pod === name) return;
  forgetAnswer();
  Object.assign(asking, { pod: name, text: "", note: "Loading …" });
  try {
    const { manifest } = (await loaded()).ask({ manifest: name });
    if (asking.pod !== name) return;
    asking.text = manifest ?? "";
    asking.note = manifest ? "" : `This file has no manifest of ${name}: it is not pending, or there was no room for it.`;
  } catch (error) {
    asking.note = `The pod cannot be shown: ${error.message}`;
  }
  if (state.tab === "ask") render({ keepFocus: "question" });
};

const changeNode = (name, what) => {
  if (what) asking.changes.set(name, what);
  else asking.changes.delete(name);
  forgetAnswer();
};

const askNodes = async () => {
  if (asking.isBusy) return;
  forgetAnswer();
  Object.assign(asking, { isBusy: true, note: "Asking …" });
  state.verdicts = null;
  render({ keepFocus: "asknow" });
  // Let the browser render before the module blocks it.
  await new Promise((done) => setTimeout(done, 20));
  try {
    const of = (what) => [...asking.changes].filter(([, known]) => known === what).map(([name]) => name);
    const question = { text: asking.text, cordon: of("cordoned"), uncordon: of("not cordoned"), remove: of("removed") };
    const response = (await loaded()).ask({ ask: question });
    asking.note = "";
    if (response.wrong) asking.wrong = response.wrong;
    else {
      const accounts = response.answer.accounts.map((account) => verdictsOf(placed(account, response.answer.nodes)));
      asking.answer = { ...response.answer, pods: response.answer.pods.map(({ name, account }) => ({ name, verdicts: accounts[account] })) };
      asking.shown = asking.answer.pods[0];
    }
  } catch (error) {
    asking.wrong = [error.message];
    asking.note = "";
  }
  asking.isBusy = false;
  if (state.tab !== "ask" || state.pod || state.node) return;
  state.group = null;
  state.verdicts = asking.shown?.verdicts ?? null;
  render({ keepFocus: asking.wrong.length > 0 ? "wrong" : "answer" });
  say(asking.wrong.length > 0 ? `Not answered: ${asking.wrong[0]}` : (asking.answer?.pods.map((pod) => `${pod.name}: ${inShort(pod)}`).slice(0, 3).join("; ") ?? ""));
};

const inShort = ({ verdicts: { account } }) => {
  const names = account.best.slice(0, 3).map(nameAt).join(", ");
  if (account.gate) return `is gated by ${account.gate[0]}`;
  if (account.error) return "the attempt fails";
  if (account.nominated !== undefined) return `goes to ${nameAt(account.nominated)}, to which it is nominated`;
  if (account.best.length === 1) return `goes to ${names}`;
  if (account.best.length > 1) return `goes to one of ${counted(account.best.length, "node")} with the highest total: ${names}${account.best.length > 3 ? ", …" : ""}`;
  return `stays pending: ${causeOf(account.message)}`;
};

// A line with a position in the text is a link to it.
const wrongLine = (line) => {
  const [, row, column, words] = /^input:(\d+):(\d+): (.*)$/s.exec(line) ?? [];
  if (!words) return h("li", {}, line);
  const jump = () => {
    const field = byId("question");
    const lines = asking.text.split("\n");
    const start = lines.slice(0, row - 1).join("\n").length + (row > 1 ? 1 : 0) + Number(column) - 1;
    field.focus();
    field.setSelectionRange(start, Math.max(start, start - Number(column) + 1 + (lines[row - 1]?.length ?? 0)));
  };
  return h("li", {}, h("button", { type: "button", class: "link", onclick: jump }, `Line ${row}, column ${column}`), `: ${words}`);
};

const changeBar = () => {
  const undo = (name) => () => {
    changeNode(name, null);
    render({ keepFocus: "asknode" });
  };
  const chips = [...asking.changes].map(([name, what]) => h("button", { type: "button", class: "chip warn", "aria-label": `${name} is ${what}; undo`, onclick: undo(name) }, `${name} ${what} ✕`));
  const field = h("input", { type: "search", id: "asknode", list: "asknodes", placeholder: "Change a node", "aria-label": "A node to change", autocomplete: "off", spellcheck: "false" });
  const press = (what) => () => {
    const name = field.value.trim();
    if (!nodeNames.has(name)) {
      asking.note = name ? `There is no node ${name}.` : "Name a node first.";
      render({ keepFocus: "asknode" });
      return;
    }
    changeNode(name, what);
    render({ keepFocus: "asknode" });
  };
  const options = h("datalist", { id: "asknodes" }, nodes.slice(0, 500).map((node) => h("option", { value: node.name })));
  const buttons = [["Cordon", "cordoned"], ["Uncordon", "not cordoned"], ["Remove", "removed"]].map(([word, what]) => h("button", { type: "button", class: "plain", id: `ask-${word.toLowerCase()}`, onclick: press(what) }, word));
  return h("div", { class: "chips" }, field, options, buttons, chips);
};

const answerParts = () => {
  const { answer, shown } = asking;
  const lines = answer.warnings.length > 0 ? [h("ul", { class: "note plainlist" }, answer.warnings.map((line) => wrongLine(line.replace(/: warning: /, ": "))))] : [];
  const heads = answer.pods.slice(0, 50).map((pod, place) => {
    const press = () => {
      asking.shown = pod;
      state.group = null;
      state.verdicts = pod.verdicts;
      render({ keepFocus: `asked${place}` });
    };
    const look = pod.verdicts.account.feasible.length > 0 ? "good" : "warn";
    return h("li", {}, h("button", { type: "button", class: "asked", id: `asked${place}`, "aria-pressed": pod === shown ? "true" : "false", onclick: press }, h("b", {}, pod.name), h("span", { class: `word ${look}` }, inShort(pod))));
  });
  const more = answer.pods.length - heads.length + answer.more;
  const list = [h("ul", { class: "plainlist", id: "answer", tabindex: -1, "aria-label": "Evaluated pods" }, heads), ...(more > 0 ? [h("p", { class: "dim" }, `and ${counted(more, "more pod")}`)] : [])];
  return [...lines, ...list, ...(shown ? accountNotes(shown.verdicts, true, shown.verdicts.account.message) : [])];
};

const askSheet = () => {
  const field = h("textarea", { id: "question", rows: Math.min(Math.max(asking.text.split("\n").length + 1, 9), 18), spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-label": "Pods, nodes or other objects in YAML or JSON", "aria-describedby": "askhelp" });
  field.value = asking.text;
  field.addEventListener("input", () => (asking.text = field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    askNodes();
  });
  const restart = () => {
    forgetAnswer();
    Object.assign(asking, { text: EXAMPLE, pod: null });
    asking.changes.clear();
    state.verdicts = null;
    if (location.hash === "#ask") render({ keepFocus: "question" });
    else go("#ask");
  };
  const help = h("p", { class: "dim", id: "askhelp" }, "Objects are added to the cluster, as by kubectl apply. Pods without a node are evaluated on every node; without such pods, the pending pods are. Ctrl+Enter asks.");
  const buttons = h("div", { class: "chips" }, h("button", { type: "button", class: "plain primary", id: "asknow", onclick: askNodes, "aria-disabled": asking.isBusy ? "true" : "false" }, "Ask"), h("button", { type: "button", class: "plain", onclick: restart }, "Start over"));
  const detail = h("div", { class: "detail asking" }, field, help, changeBar(), buttons);
  if (asking.note) detail.append(h("p", { class: "note", role: "status" }, asking.note));
  if (asking.wrong.length > 0) detail.append(h("div", { class: "note warn", id: "wrong", tabindex: -1 }, h("b", {}, "Not answered"), h("ul", { class: "plainlist" }, asking.wrong.map(wrongLine))));
  if (!asking.answer) return [detail];
  detail.append(...answerParts());
  return [detail, ...(asking.shown ? verdictParts(asking.shown.verdicts) : [])];
};
