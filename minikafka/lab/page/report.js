"use strict";
/* The lab's report: a document of minikafka/lab/results.py as a page. */

const Report = (() => {
  const {html, svg, count, command} = Dom;
  const ENGINES = [
    ["simulation", "Simulation"], ["processes", "Processes"], ["apache-kafka", "Apache Kafka"],
    ["verify", "This cluster"],
  ];
  const EFFECTS = [
    ["lost", "Lost"], ["repeated", "Repeated"], ["reordered", "Reordered"],
    ["aborted_read", "Aborted, yet read"], ["torn", "Torn"], ["vanished", "Vanished"],
    ["too_few", "Too few replicas"],
  ];
  const day = (text) => {
    const date = new Date(text);
    if (Number.isNaN(date.getTime())) return text;
    return new Intl.DateTimeFormat("en-GB", {dateStyle: "long", timeZone: "UTC"}).format(date);
  };
  const runs = (number) => `${count(number)} ${number === 1 ? "run" : "runs"}`;

  /* Those engines that the document speaks of, in order: [name, title]. */
  const enginesOf = (report) => [
    ...ENGINES.filter(([name]) => name in report.engines),
    ...Object.keys(report.engines).filter((name) => !ENGINES.some(([known]) => known === name))
      .map((name) => [name, name]),
  ];

  const section = (id, title, lead, ...rest) => html("section", {id, "aria-labelledby": `${id}-title`},
    html("h2", {id: `${id}-title`}, title), lead && html("p", {class: "lead"}, lead), rest);

  /* --- head -------------------------------------------------------------------------------- */

  const isUnexpected = (claim) => (typeof claim.is_as_expected === "boolean" ? !claim.is_as_expected
    : typeof claim.expected === "boolean" && claim.verdict !== "open" && (claim.verdict === "true") !== claim.expected);

  function engineLine(name, title, engine) {
    if (engine.missing) return html("li", {class: "missing"}, html("b", {}, title), ` not run: ${engine.missing}`);
    const leftOut = Object.entries(engine.left_out ?? {}).map(([why, cells]) => `${count(cells)} cells left out: ${why}`);
    const broken = Object.entries(engine.broken ?? {}).map(([token, text]) => html("div", {class: "broken"},
      shape("alarm"), ` An invariant broke: ${text}. `, command(`minikafka lab replay '${token}'`)));
    const words = [engine.version, engine.runs === undefined ? null : runs(engine.runs)];
    if (engine.recorded) words.push(`recorded ${day(engine.recorded)}`);
    return html("li", {}, html("b", {}, title), ` ${words.filter(Boolean).join(", ")}`,
      leftOut.length > 0 && html("details", {}, html("summary", {}, "What was left out"), leftOut.map((one) => html("p", {}, one))),
      broken);
  }

  function overall(report) {
    const wrong = report.claims.filter(isUnexpected);
    const open = report.claims.filter((claim) => claim.verdict === "open").length;
    const number = report.claims.length;
    if (!wrong.length && report.is_as_expected !== false) {
      const rest = open ? `; ${open} ${open === 1 ? "is" : "are"} open` : "";
      if (!number) return html("p", {class: "overall"}, shape("open"), "No claim was looked at.");
      return html("p", {class: "overall good"}, shape("true"),
        html("span", {}, `As expected: ${number - open} of ${number} claims are stamped as they should be${rest}.`));
    }
    const links = wrong.flatMap((claim, i) => [i ? "; " : " ", html("a", {href: `#claim-${claim.id}`}, claim.statement)]);
    return html("p", {class: "overall bad", role: "alert"}, shape("alarm"),
      html("span", {}, wrong.length ? `Not as expected: ${wrong.length} of ${number} claims.` : "Not as expected.", links));
  }

  function head(report) {
    const facts = [
      report.minikafka && `minikafka ${report.minikafka}`, report.python && `Python ${report.python}`,
      report.started && day(report.started), report.is_quick && "quick run",
      report.seconds && `took ${report.seconds < 120 ? `${Math.round(report.seconds)} s` : `${Math.round(report.seconds / 60)} min`}`,
    ].filter(Boolean);
    return html("header", {class: "head"},
      html("p", {class: "kicker"}, facts.join(" · ")),
      html("h1", {}, "The delivery lab"),
      html("p", {class: "lead"}, "What each guarantee of a producer and a consumer loses, repeats and reorders "
        + "when something goes wrong: claims taken at their word, attacked, and stamped."),
      overall(report),
      html("ul", {class: "engines"}, enginesOf(report).map(([name, title]) => engineLine(name, title, report.engines[name]))),
      html("nav", {"aria-label": "Parts"}, html("a", {href: "#claims"}, "Claims"),
        hasSides(report) && html("a", {href: "#side-by-side"}, "Side by side"),
        report.cells?.length > 0 && html("a", {href: "#matrix"}, "Matrix"), hasPlots(report) && html("a", {href: "#plots"}, "Plots")));
  }

  /* --- stamps: a shape and a word -------------------------------------------------------------- */

  function shape(verdict) {
    const drawn = {
      true: [svg("circle", {cx: 10, cy: 10, r: 8.5}), svg("path", {d: "M5.5 10.5l3 3.2 6-7"})],
      false: [svg("rect", {x: 1.5, y: 1.5, width: 17, height: 17}), svg("path", {d: "M6 6l8 8M14 6l-8 8"})],
      open: [svg("circle", {cx: 10, cy: 10, r: 8.5, "stroke-dasharray": "3 2.6"})],
      alarm: [svg("path", {d: "M10 1.5L19 18.5H1z"}), svg("path", {d: "M10 7v6M10 15v1.4"})],
    }[verdict];
    return svg("svg", {viewBox: "0 0 20 20", class: `shape ${verdict}`, "aria-hidden": "true"}, drawn);
  }

  const stamp = (verdict) => html("span", {class: `stamp ${verdict}`}, shape(verdict), verdict.toUpperCase());

  /* --- claims ---------------------------------------------------------------------------------- */

  function engineCell(report, claim, name, title) {
    const found = claim.engines?.[name];
    const engine = report.engines[name];
    if (!found) {
      return html("td", {class: "engine none", "data-engine": title}, html("span", {title: engine.missing ?? "not run"}, "—"),
        html("span", {class: "heard"}, engine.missing ? `not run: ${engine.missing}` : "not run"));
    }
    const parts = EFFECTS.filter(([effect]) => found.counts?.[effect])
      .map(([effect, title]) => `${count(found.counts[effect])} ${title.toLowerCase()}`);
    return html("td", {class: `engine ${found.verdict}`, "data-engine": title},
      html("span", {class: "verdict"}, shape(found.verdict), found.verdict),
      html("span", {class: "why"}, found.why),
      // Without a count there is nothing that the sentence above does not say.
      (parts.length > 0 || !found.why?.includes("runs")) && html("span", {class: "counts"}, runs(found.runs),
        parts.length > 0 && `: ${parts.join(", ")}`,
        parts.length > 0 && found.counts.sent > 0 && ` of ${count(found.counts.sent)} records`));
  }

  /* The first example of a claim, with a timeline if there is one that has it. */
  function exampleOf(report, claim, engines) {
    const found = engines.map(([name, title]) => ({title, example: claim.engines?.[name]?.example}))
      .filter((one) => one.example);
    return found.find((one) => report.timelines?.[one.example.seed]) ?? found[0] ?? null;
  }

  /* A button that opens a timeline, or commands, in a place below it. */
  function opener(report, token, place, label, note) {
    if (!report.timelines?.[token]) {
      return html("details", {class: "replay"}, html("summary", {}, "How to replay it"), command(`minikafka lab replay '${token}'`));
    }
    let scrubber = null;
    const button = html("button", {type: "button", class: "opener", "aria-expanded": "false"}, `${label} timeline`);
    button.addEventListener("click", () => {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!isOpen));
      button.textContent = isOpen ? `${label} timeline` : "Hide the timeline";
      place.hidden = isOpen;
      if (isOpen) {
        scrubber?.pause();
        return;
      }
      if (!scrubber) {
        const inside = html("div", {});
        place.replaceChildren(html("h3", {}, report.timelines[token].title), note ?? "", inside,
          command(`minikafka lab replay '${token}'`));
        scrubber = new Scrubber(inside, report.timelines[token]);
      }
      inFocus(place);
    });
    return button;
  }

  function inFocus(place) {
    place.querySelector("input[type=range]")?.focus({preventScroll: true});
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    place.scrollIntoView({block: "nearest", behavior: isStill ? "auto" : "smooth"});
  }

  function claimRows(report, claim, engines) {
    const example = exampleOf(report, claim, engines);
    const place = html("div", {class: "opened", hidden: true});
    const faults = example?.example.faults?.length
      ? html("p", {class: "faults"}, `${example.title}, shrunk to: ${example.example.faults.join("; ")}.`) : null;
    const isLoud = isUnexpected(claim);
    const expected = claim.expected === null || claim.expected === undefined ? "" : claim.expected ? "TRUE" : "FALSE";
    const head = html("tr", {class: isLoud ? "claim loud" : "claim", id: `claim-${claim.id}`},
      html("td", {class: "stamped"}, stamp(claim.verdict),
        isLoud && html("span", {class: "loudly"}, shape("alarm"), `expected ${expected}`)),
      html("th", {scope: "row"}, html("span", {class: "statement"}, claim.statement),
        claim.because && html("span", {class: "because"}, claim.because),
        example && opener(report, example.example.seed, place, "Show a", faults)),
      engines.map(([name, title]) => engineCell(report, claim, name, title)));
    return [head, html("tr", {class: "below"}, html("td", {colspan: 2 + engines.length}, place))];
  }

  function claims(report) {
    const engines = enginesOf(report);
    const headings = engines.map(([name, title]) => {
      const engine = report.engines[name];
      const note = engine.missing ? "not run" : engine.recorded ? `recorded ${day(engine.recorded)}` : "";
      return html("th", {scope: "col"}, title, note && html("span", {class: "note"}, note));
    });
    return section("claims", "Claims", "A claim is stamped true if all that it says holds in every run of its "
      + "cells of the matrix, and false if one run shows the contrary. One that nobody could decide is open.",
    html("table", {class: "claims"},
      html("thead", {}, html("tr", {}, html("th", {scope: "col"}, "Stamp"), html("th", {scope: "col"}, "Claim"), headings)),
      html("tbody", {}, report.claims.map((claim) => claimRows(report, claim, engines)))));
  }

  /* --- side by side ---------------------------------------------------------------------------- */

  const hasSides = (report) => report.side_by_side?.length === 2
    && report.side_by_side.every((token) => report.timelines?.[token]);

  function sideBySide(report) {
    if (!hasSides(report)) return null;
    const tokens = report.side_by_side;
    const [left, right] = tokens.map((token) => report.timelines[token]);
    const models = [new TimelineModel(left), new TimelineModel(right)];
    const parting = models[0].parting(models[1]);
    const at = (model) => Math.min(parting, model.length - 1);
    const faults = models.map((model) => Math.max(0, model.firstFault()));
    const faultTimes = models.map((model, i) => model.times[faults[i]] ?? 0);
    const told = (model, index) => model.told(model.events[index]).join(" ");
    const words = parting < 0 ? "They do not differ in anything." : [
      `They part for the first time at ${models[0].times[at(models[0])].toFixed(4)} s: here ${told(models[0], at(models[0]))}; `
      + `there ${told(models[1], at(models[1]))}. What matters comes at ${faultTimes[0].toFixed(4)} s here and at `
      + `${faultTimes[1].toFixed(4)} s there: ${told(models[0], faults[0])}. `,
      html("button", {type: "button", onclick: () => pair[0].goTo(parting)}, "Go to the first difference"), " ",
      html("button", {type: "button", onclick: () => pair[0].goTo(faults[0])}, "Go to the fault")];
    let pair = [];
    const columns = [left, right].map((timeline, i) => html("div", {class: "side"},
      html("h3", {}, timeline.title), outcome(timeline.counts), html("div", {}),
      command(`minikafka lab replay '${tokens[i]}'`)));
    const shown = section("side-by-side", "The same seed twice", "The same seed and the same faults; one setting "
      + "differs. Both timelines move together, and meet where the first fault happens.", html("p", {class: "parting"}, words), html("div", {class: "sides"}, columns));
    shown.start = () => {
      const marked = parting < 0 ? null : {index: parting, text: "first difference"};
      const [one, other] = columns.map((column) => column.children[2]);
      const first = new Scrubber(one, left, {marked, index: faults[0]});
      const second = new Scrubber(other, right,
        {marked, coupled: first, aligned: [faultTimes[1], faultTimes[0]], index: faults[1]});
      first.goTo(faults[0], false);
      pair = [first, second];
      return pair;
    };
    return shown;
  }

  function outcome(counts) {
    if (!counts) return "";
    const part = (name, title) => [counts[name] ?? 0, title];
    const words = [part("sent", "sent"), part("trusted", "acknowledged"), part("lost", "lost"), part("repeated", "repeated")];
    return html("p", {class: "outcome"}, words.map(([value, title]) => html("span",
      {class: value && (title === "lost" || title === "repeated") ? "hit" : ""}, html("b", {}, count(value)), ` ${title}`)));
  }

  /* --- matrix ---------------------------------------------------------------------------------- */

  const NAME = /^p\.(.+)_t\.(.+)_c\.(.+)_f\.(.+)$/;

  /* Cells by the names of their parts. */
  function partsOf(cell) {
    const [, producer, topic, consumer, fault] = NAME.exec(cell.id) ?? [null, cell.id, "", "none", ""];
    return {producer, topic, consumer, fault, cell};
  }

  const spoken = (name) => name.replaceAll("-", " ");
  const WORDS = {
    acks0: "acks=0", acks1: "acks=1", acksall: "acks=all", idem: "idempotent", tx: "transactions",
    rc: "read committed", fsync: "fsync",
  };

  /* "acks1-retries-fly5" is "acks=1, retries, 5 in flight". */
  const modeWords = (name) => name.split("-").map((word) => WORDS[word]
    ?? word.replace(/^fly(\d+)$/, "$1 in flight").replace(/^r(\d+)$/, (_, n) => `${n} ${n === "1" ? "replica" : "replicas"}`)
      .replace(/^m(\d+)$/, "min $1")).join(", ");
  const commitWords = (name) => `commit ${spoken(name.replace(/-rc$/, ""))}${name.endsWith("-rc") ? ", read committed" : ""}`;

  const share = (found, effect) => (found?.runs ? (found.runs_with?.[effect] ?? 0) / found.runs : null);

  function shareWords(value) {
    if (value === null) return "";
    if (value === 0) return "0";
    const percent = value * 100;
    return percent < 1 ? "<1" : percent > 99 && percent < 100 ? ">99" : String(Math.round(percent));
  }

  const level = (value) => (value === null ? "no" : value === 0 ? 0 : 1 + Math.min(5, Math.floor(value * 6)));

  class HeatMap {
    constructor(report, cells, id, title, groupOf) {
      this.report = report;
      this.id = id;
      this.faults = [...new Set(cells.map((one) => one.fault))];
      this.rows = new Map();
      for (const one of cells) {
        const [group, name] = groupOf(one);
        const key = `${group}\n${name}`;
        if (!this.rows.has(key)) this.rows.set(key, {group, name, cells: new Map()});
        this.rows.get(key).cells.set(one.fault, one.cell);
      }
      this.details = html("div", {class: "cell-details", role: "status", "aria-live": "polite"},
        html("p", {class: "hint"}, "Arrows move between cells; Enter or a click shows one."));
      this.timeline = html("div", {class: "opened", hidden: true});
      this.body = html("tbody", {});
      this.title = title;
      this.caption = html("caption", {}, title);
      this.table = html("table", {class: "heat", role: "grid", "aria-label": title},
        this.caption, html("thead", {}, html("tr", {}, html("th", {colspan: 2, scope: "col"}, html("span", {class: "heard"}, "mode")),
          this.faults.map((fault) => html("th", {scope: "col", class: "fault"}, html("span", {}, spoken(fault)))))), this.body);
      this.table.addEventListener("keydown", (event) => this.key(event));
      this.table.addEventListener("click", (event) => this.pick(event.target.closest("td[data-cell]")));
      this.element = html("div", {class: "map"}, html("div", {class: "scrolls"}, this.table), this.details, this.timeline);
    }

    show(engine, effect) {
      this.engine = engine;
      this.effect = effect;
      const words = EFFECTS.find(([name]) => name === effect)?.[1].toLowerCase() ?? effect;
      this.caption.replaceChildren(`${this.title}: `, html("em", {}, words));
      const groups = Map.groupBy ? Map.groupBy(this.rows.values(), (row) => row.group) : grouped(this.rows.values());
      const rows = [];
      for (const [group, members] of groups) {
        members.forEach((row, i) => rows.push(html("tr", {class: i ? "" : "first"},
          i === 0 && html("th", {scope: "rowgroup", rowspan: members.length, class: "group"}, group),
          html("th", {scope: "row"}, row.name),
          this.faults.map((fault) => this.cell(row, fault)))));
      }
      this.body.replaceChildren(...rows);
      this.cells = [...this.body.querySelectorAll("td")];
      this.cells[0]?.setAttribute("tabindex", "0");
    }

    cell(row, fault) {
      const cell = row.cells.get(fault);
      const value = share(cell?.engines?.[this.engine], this.effect);
      const words = shareWords(value);
      const label = value === null ? "not run" : value === 0 ? "in no run" : `in ${words} % of the runs`;
      return html("td", {
        role: "gridcell", class: `level-${level(value)}`, tabindex: "-1", "data-cell": cell?.id,
        "aria-label": `${row.group}, ${row.name}, ${spoken(fault)}: ${this.effect} ${label}`,
      }, value === 0 ? "·" : words);
    }

    key(event) {
      const at = this.cells.indexOf(event.target);
      if (at < 0) return;
      const width = this.faults.length;
      const by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width}[event.key];
      const to = {Home: at - (at % width), End: at - (at % width) + width - 1}[event.key];
      if (event.key === "Enter" || event.key === " ") this.pick(event.target);
      else if (by !== undefined || to !== undefined) this.focus(to ?? at + by);
      else return;
      event.preventDefault();
    }

    focus(to) {
      if (!this.cells[to]) return;
      for (const cell of this.cells) cell.setAttribute("tabindex", "-1");
      this.cells[to].setAttribute("tabindex", "0");
      this.cells[to].focus();
    }

    pick(element) {
      if (!element?.dataset.cell) return;
      this.table.querySelector(".picked")?.classList.remove("picked");
      element.classList.add("picked");
      this.timeline.hidden = true;
      const cell = [...this.rows.values()].flatMap((row) => [...row.cells.values()]).find((one) => one.id === element.dataset.cell);
      const words = Object.values(cell.words ?? {}).join("; ") || spoken(cell.id);
      this.details.replaceChildren(html("h4", {}, words), html("p", {class: "cell-name"}, html("code", {}, cell.id)),
        html("ul", {}, enginesOf(this.report).filter(([name]) => cell.engines?.[name]).map(([name, title]) => this.found(cell.engines[name], title))));
    }

    found(found, title) {
      const hits = EFFECTS.filter(([effect]) => found.runs_with?.[effect]).map(([effect, word]) =>
        `${word.toLowerCase()} in ${count(found.runs_with[effect])}`);
      const token = found.examples?.[this.effect] ?? Object.values(found.examples ?? {})[0];
      return html("li", {}, html("b", {}, title), `: ${runs(found.runs)}; ${hits.join(", ") || "nothing of this kind in any"}. `,
        token && opener(this.report, token, this.timeline, "Show its"),
        token && this.report.timelines?.[token] && [" ", command(`minikafka lab replay '${token}'`)]);
    }
  }

  function grouped(rows) {
    const groups = new Map();
    for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
    return groups;
  }

  /* Tabs, of which one is chosen with the arrow keys. */
  function tabs(label, names, choose) {
    const buttons = names.map(([name, title], i) => html("button", {
      type: "button", role: "tab", "aria-selected": String(i === 0), tabindex: i ? "-1" : "0",
      onclick: () => pick(i),
    }, title));
    function pick(at) {
      buttons.forEach((button, i) => {
        button.setAttribute("aria-selected", String(i === at));
        button.setAttribute("tabindex", i === at ? "0" : "-1");
      });
      choose(names[at][0]);
    }
    return html("div", {role: "tablist", "aria-label": label, class: "tabs", onkeydown: (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by) return;
      const at = (buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length;
      pick(at);
      buttons[at].focus();
    }}, buttons);
  }

  function matrix(report) {
    if (!report.cells?.length) return null;
    const cells = report.cells.map(partsOf);
    const maps = [
      new HeatMap(report, cells.filter((one) => one.consumer === "none"), "producers",
        "Producers and the log", (one) => [modeWords(one.producer), modeWords(one.topic)]),
      new HeatMap(report, cells.filter((one) => one.consumer !== "none"), "consumers",
        "Consumers and their results", (one) => [commitWords(one.consumer), modeWords(one.producer)]),
    ].filter((map) => map.rows.size);
    const engines = enginesOf(report).filter(([name]) => report.cells.some((cell) => cell.engines?.[name]));
    const effects = EFFECTS.filter(([name], i) => i < 3 || report.cells.some((cell) =>
      Object.values(cell.engines ?? {}).some((found) => found.runs_with?.[name])));
    const shown = {engine: engines[0]?.[0], effect: effects[0][0]};
    const draw = () => maps.forEach((map) => map.show(shown.engine, shown.effect));
    draw();
    return section("matrix", "Matrix", "Each cell is a mode under a fault; its number is the share of runs, in per "
      + "cent, in which it happened at least once. A dot: it was run, and happened never. Hatched: not run.",
    html("div", {class: "choices"}, tabs("What is counted", effects, (name) => { shown.effect = name; draw(); }),
      engines.length > 1 && html("label", {}, "in ", html("select", {onchange: (event) => { shown.engine = event.target.value; draw(); }},
        engines.map(([name, title]) => html("option", {value: name}, title)))), key()),
    maps.map((map) => map.element));
  }

  const key = () => html("span", {class: "key", "aria-hidden": "true"}, "0",
    [0, 1, 2, 3, 4, 5, 6].map((one) => html("i", {class: `level-${one}`}, one ? "" : "·")), "100 %");

  /* --- plots ----------------------------------------------------------------------------------- */

  const hasPlots = (report) => Object.values(report.plots ?? {}).some((one) => Object.keys(one).length);
  const entries = (value) => Object.entries(value ?? {});

  function plots(report) {
    if (!hasPlots(report)) return null;
    const found = report.plots;
    const drawn = [];
    const add = (draw, plot) => { const place = html("div", {}); draw(place, plot); drawn.push(place); };
    const lines = (name) => entries(found[name]).map(([title, points]) => ({name: title, points}));
    const time = {label: "time in the run", unit: "s"};
    if (entries(found.latency_by_acks).length) {
      add(Plots.percentiles, {caption: "How long a producer waits for its acknowledgement",
        series: entries(found.latency_by_acks).map(([name, values]) => ({name, values: values.map((one) => one * 1000)})),
        y: {label: "latency", unit: "ms", isLog: true}});
    }
    if (entries(found.lag).length) {
      add(Plots.lines, {caption: "Lag: records in the log that the consumer has not been given", series: lines("lag"),
        x: time, y: {label: "lag", unit: "records"}, isStepped: true});
    }
    if (entries(found.staleness).length) {
      add(Plots.lines, {caption: "Staleness: how old the oldest record is that the consumer still lacks",
        series: lines("staleness"), x: time, y: {label: "staleness", unit: "s"}});
    }
    if (entries(found.consumed_times).length) {
      const groups = [...new Set(entries(found.consumed_times).flatMap(([, times]) => Object.keys(times)))].sort((a, b) => a - b);
      add(Plots.bars, {caption: "How often each value was consumed (more than once: 2 or more)",
        groups: groups.map((one) => (one === groups.at(-1) && one !== "0" && one !== "1" ? `${one} or more` : one)),
        series: entries(found.consumed_times).map(([name, times]) => ({name, values: groups.map((one) => times[one] ?? 0)})),
        x: {label: "times consumed"}, y: {label: "values", isLog: true}});
    }
    return section("plots", "Plots", null, html("div", {class: "plots"}, drawn));
  }

  /* --- all ------------------------------------------------------------------------------------- */

  function show(element, report) {
    const sides = sideBySide(report);
    element.replaceChildren(...[head(report), claims(report), sides, matrix(report), plots(report),
      html("footer", {}, "Written by ", html("code", {}, "minikafka lab run"), ". Each token repeats its run: ",
        html("code", {}, "minikafka lab replay TOKEN"), ".")].filter(Boolean));
    const scrubbers = sides?.start() ?? [];
    // For a test, and for who reads with the browser's console.
    element.scrubbers = scrubbers;
    if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  }

  return {show};
})();
