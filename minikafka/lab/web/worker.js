// The worker of the page: Pyodide and the Python code of the lab, away from the page's own thread.
// It gets everything in its first message, because a page opened as a file may fetch nothing.

let python = null;

async function unpacked(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function script(bytes) {
  return URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
}

async function start(engine) {
  const begin = performance.now();
  const names = ["loader", "module", "wasm", "lock", "stdlib", "code"];
  const contents = await Promise.all(names.map((name) => unpacked(engine[name])));
  const part = Object.fromEntries(names.map((name, number) => [name, contents[number]]));
  const really = self.fetch.bind(self);
  self.fetch = (place, options) => {
    const name = String(place && place.url ? place.url : place);
    if (name.endsWith("pyodide.asm.wasm")) {
      const headers = { "Content-Type": "application/wasm" };
      return Promise.resolve(new Response(part.wasm, { headers }));
    }
    return really(place, options);
  };
  // A page that was opened as a file may start no module worker. Pyodide wants one; what it needs
  // of one is import(), which every worker has.
  self.importScripts = () => {
    throw new TypeError("this worker imports modules");
  };
  const { loadPyodide } = await import(script(part.loader));
  const { default: createPyodideModule } = await import(script(part.module));
  python = await loadPyodide({
    indexURL: "https://minikafka.invalid/",
    createPyodideModule,
    lockFileContents: JSON.parse(new TextDecoder().decode(part.lock)),
    stdLibURL: URL.createObjectURL(new Blob([part.stdlib], { type: "application/zip" })),
    packageBaseUrl: "https://minikafka.invalid/",
  });
  const loaded = performance.now();
  python.FS.writeFile("/lab.zip", part.code);
  python.globals.set("stand_ins", engine.stand_ins);
  python.runPython(`
import json, logging, sys, types, warnings
warnings.simplefilter("ignore")
logging.disable()
for name in json.loads(stand_ins):
    sys.modules[name] = types.ModuleType(name)
import zipfile
zipfile.ZipFile("/lab.zip").extractall("/lab")
sys.path.insert(0, "/lab")
import minikafka.lab.web.browser as browser
`);
  const ended = performance.now();
  return { python_ms: Math.round(loaded - begin), code_ms: Math.round(ended - loaded) };
}

self.onmessage = async ({ data }) => {
  const { id, call, parameters } = data;
  try {
    if (call === "start") {
      self.postMessage({ id, value: await start(parameters[0]) });
      return;
    }
    const browser = python.globals.get("browser");
    const begin = performance.now();
    const value = browser[call](...parameters);
    self.postMessage({ id, value, ms: performance.now() - begin });
  } catch (error) {
    const lines = String(error.message || error).trim().split("\n");
    self.postMessage({ id, error: lines[lines.length - 1], trace: lines.join("\n") });
  }
};
