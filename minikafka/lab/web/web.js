// The page: choices on the left side of a token, a run of the lab's own Python code on the right.
// The token is the part of the address behind #, so that a link opens the same run.
"use strict";
{
  const find = (id) => document.getElementById(id);
  const axes = ["producer", "topic", "consumer", "fault"];
  const strikes = [];
  let cells = [];
  let shown = null;
  let scrubber = null;

  // --- the worker ------------------------------------------------------------------------------

  async function unpackedText(base64) {
    const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const waiting = new Map();
  let calls = 0;
  let worker = null;

  function ask(call, ...parameters) {
    calls += 1;
    const id = calls;
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, call, parameters });
    });
  }

  async function start() {
    const text = await unpackedText(window.LAB_ENGINE.worker);
    const place = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    worker = new Worker(place);
    worker.onmessage = ({ data }) => {
      const { resolve, reject } = waiting.get(data.id);
      waiting.delete(data.id);
      if (data.error === undefined) {
        resolve(data);
      } else {
        reject(Object.assign(new Error(data.error), { trace: data.trace }));
      }
    };
    worker.onerror = (event) => say(`the worker has failed: ${event.message}`);
    return (await ask("start", window.LAB_ENGINE)).value;
  }

  // --- choices ---------------------------------------------------------------------------------

  function say(text) {
    find("status").textContent = text;
  }

  function fill(select, words) {
    const before = select.value;
    select.replaceChildren(
      ...words.map((word) => new Option(word === "null" ? "none: look at the log" : word, word)),
    );
    if (words.includes(before)) {
      select.value = before;
    }
  }

  // Each choice leaves those that the matrix has: producer first, then consumer, topic and fault.
  function narrow() {
    let left = cells;
    for (const axis of ["producer", "consumer", "topic", "fault"]) {
      fill(find(axis), [...new Set(left.map((cell) => String(cell[axis])))]);
      left = left.filter((cell) => String(cell[axis]) === find(axis).value);
    }
    return left[0];
  }

  function token() {
    const cell = narrow();
    const tail = strikes.map((one) => `!${one.time}.${one.action}.${one.node}`).join("");
    return `${cell.id}@${Number(find("seed").value) || 0}${tail}`;
  }

  function choose(wanted) {
    const name = wanted.split("@")[0];
    const cell = cells.find((one) => one.id === name);
    if (!cell) {
      return;
    }
    for (const axis of ["producer", "consumer", "topic", "fault"]) {
      narrow();
      find(axis).value = String(cell[axis]);
    }
    narrow();
    const [number, ...own] = (wanted.split("@")[1] || "0").split("!");
    find("seed").value = parseInt(number, 10) || 0;
    strikes.length = 0;
    for (const one of own) {
      const found = /^(\d+(?:\.\d+)?)\.([a-z]+)\.(\w+)$/.exec(one);
      if (found) {
        strikes.push({ time: found[1], action: found[2], node: found[3] });
      }
    }
    showStrikes();
  }

  function showStrikes() {
    find("strikes").replaceChildren(
      ...strikes.map((one, number) => {
        const item = document.createElement("li");
        const away = document.createElement("button");
        away.type = "button";
        away.textContent = "Remove";
        away.addEventListener("click", () => {
          strikes.splice(number, 1);
          showStrikes();
          run(token());
        });
        item.append(`at ${one.time} s: ${one.action} ${one.node} `, away);
        return item;
      }),
    );
  }

  // --- a run -----------------------------------------------------------------------------------

  function show(timeline, ms) {
    shown = timeline;
    const counts = Object.entries(timeline.counts).filter(([, count]) => count);
    find("outcome").hidden = false;
    find("title").textContent = timeline.title;
    find("counts").textContent = counts
      .map(([name, count]) => `${name.replace("_", " ")} ${count}`)
      .join(", ");
    find("faults").replaceChildren(
      ...timeline.faults.map((text) => {
        const item = document.createElement("li");
        item.textContent = text;
        return item;
      }),
    );
    find("replay").textContent = `minikafka lab replay '${timeline.scenario}'`;
    find("fingerprint").textContent = timeline.fingerprint;
    find("link").href = `#${timeline.scenario}`;
    if (location.hash.slice(1) !== timeline.scenario) {
      history.replaceState(null, "", `#${timeline.scenario}`);
    }
    if (scrubber && scrubber.destroy) {
      scrubber.destroy();
    }
    find("scrubber").replaceChildren();
    scrubber = new Scrubber(find("scrubber"), timeline, {});
    const last = timeline.events.length ? timeline.events[timeline.events.length - 1].t : 0;
    say(`${last.toFixed(1)} simulated seconds in ${Math.round(ms)} ms`);
  }

  async function attempt(call, ...parameters) {
    say("Running…");
    try {
      const { value, ms } = await ask(call, ...parameters);
      const timeline = JSON.parse(value);
      if (timeline === null) {
        say("none of 200 seeds shows that: perhaps it cannot happen here");
        return;
      }
      show(timeline, ms);
      choose(timeline.scenario);
    } catch (error) {
      say(error.message);
    }
  }

  const run = (wanted) => attempt("run", wanted);

  find("choice").addEventListener("submit", (event) => {
    event.preventDefault();
    run(token());
  });
  for (const axis of axes) {
    find(axis).addEventListener("change", () => run(token()));
  }
  find("next").addEventListener("click", () => {
    find("seed").value = (Number(find("seed").value) || 0) + 1;
    run(token());
  });
  find("find").addEventListener("click", () => {
    const first = (Number(find("seed").value) || 0) + 1;
    attempt("first_with", narrow().id, find("what").value, first, 200);
  });
  find("shrink").addEventListener("click", () => {
    if (shown) {
      attempt("shrunk", shown.scenario, find("what").value);
    }
  });
  find("strike-add").addEventListener("click", () => {
    strikes.push({
      time: String(Number(find("strike-time").value) || 0),
      action: find("strike-action").value,
      node: find("strike-node").value,
    });
    showStrikes();
    run(token());
  });
  find("copy").addEventListener("click", () => navigator.clipboard.writeText(location.href));
  window.addEventListener("hashchange", () => {
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (wanted && shown && wanted !== shown.scenario) {
      run(wanted);
    }
  });

  (async () => {
    try {
      await start();
      cells = JSON.parse((await ask("choices")).value);
      narrow();
      const wanted = decodeURIComponent(location.hash.slice(1));
      if (wanted) {
        choose(wanted);
      } else {
        choose("p.acks1-retries_t.r3-m2_c.none_f.leader-killed-after-ack@0");
      }
      await run(wanted || token());
      document.body.dataset.ready = "true";
    } catch (error) {
      say(`cannot start: ${error.message}`);
    }
  })();

  // For tests: fingerprints of the first seeds, as the Python code gives them elsewhere.
  window.labFingerprints = async (seeds) => JSON.parse((await ask("fingerprints", seeds)).value);
}
