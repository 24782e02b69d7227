// The lab's Python code in Node: prints the fingerprints of the first seeds as JSON.
//   node node.mjs PYODIDE BUNDLE SEEDS STAND_INS

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, bundle, seeds, standIns] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: `${folder}/` });
python.FS.writeFile("/lab.zip", readFileSync(bundle));
python.globals.set("stand_ins", standIns);
python.globals.set("seeds", Number(seeds));
let found;
try {
  found = python.runPython(`
import json, logging, sys, time, types, warnings
warnings.simplefilter("ignore")
logging.disable()
for name in json.loads(stand_ins):
    sys.modules[name] = types.ModuleType(name)
sys.path.insert(0, "/lab.zip")
import minikafka.lab.web.browser as browser
seconds = []
begin = time.perf_counter()
fingerprints = json.loads(browser.fingerprints(seeds, seconds.append))
took = time.perf_counter() - begin
json.dumps({"fingerprints": fingerprints, "simulated_s": sum(seconds), "seconds": took})
`);
} catch (error) {
  // Node would print the line of Pyodide that has thrown it, which has a million characters.
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
process.stdout.write(found);
