// Answers questions about the cluster of the report with Flotilla's WebAssembly module, which is part of the file.

// Unpacks an element of the file.
const unpacked = async (id) => {
  const packed = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const canAsk = byId("engine").textContent !== "";

class Engine {
  static async load() {
    if (typeof WebAssembly !== "object" || typeof DecompressionStream !== "function") throw new Error("this browser runs no WebAssembly or unpacks no data; a browser of 2023 or later does");
    const [module, cluster] = await Promise.all([unpacked("engine"), unpacked("kept")]);
    const engine = new Engine((await WebAssembly.instantiate(module, {})).instance.exports);
    const response = engine.call("flotilla_open", cluster);
    if (response.wrong) throw new Error(response.wrong.join("; "));
    return engine;
  }

  constructor(exports) {
    this.exports = exports;
  }

  read(at, length) {
    return new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, at, length));
  }

  call(name, bytes) {
    const { exports } = this;
    try {
      // The memory may have grown, which invalidates its buffer.
      const at = exports.flotilla_input(bytes.length);
      new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
      const length = exports[name]();
      return JSON.parse(this.read(exports.flotilla_output(), length), (_, value) => (typeof value === "string" ? cleanLines(value) : value));
    } catch (error) {
      this.isBroken = true;
      const words = error instanceof WebAssembly.RuntimeError ? this.read(exports.flotilla_last_words_at(), exports.flotilla_last_words()) : "";
      throw new Error(`the module has failed, and is loaded again for the next question: ${clean(words || error.message)}`);
    }
  }

  ask(request) {
    return this.call("flotilla_ask", new TextEncoder().encode(JSON.stringify(request)));
  }
}

// The first question loads the module. A failed module is not used again.
let engine = null;
const loaded = async () => {
  if (!engine || (await engine.catch(() => ({ isBroken: true }))).isBroken) engine = Engine.load();
  return engine;
};

// Nodes that only questions have.
const newNodes = [];
const nameAt = (id) => nodes[id]?.name ?? newNodes[id - nodes.length];

// Accounts refer to nodes by index in the answer; these are mapped to indexes in the report. Nodes that are not in the report
// are appended, and are not on the map.
const placed = (account, names) => {
  const id = (place) => {
    const name = names[place];
    if (nodeNames.has(name)) return nodeNames.get(name).id;
    if (!newNodes.includes(name)) newNodes.push(name);
    return nodes.length + newNodes.indexOf(name);
  };
  const ids = (places) => places.map(id);
  return {
    ...account,
    nominated: account.nominated === undefined ? undefined : id(account.nominated),
    best: ids(account.best),
    feasible: account.feasible.map(([node, ...rest]) => [id(node), ...rest]),
    refused: account.refused.map((group) => ({ ...group, misses: group.misses.map(([lacks, found]) => [lacks, ids(found)]) })),
    preemption: account.preemption && { ...account.preemption, node: account.preemption.node === undefined ? undefined : id(account.preemption.node), candidates: account.preemption.candidates.map(([node, victims]) => [id(node), victims]) },
  };
};
