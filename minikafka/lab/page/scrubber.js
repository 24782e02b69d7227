"use strict";
/* Moves through a timeline (minikafka/lab/timeline.py describes its form).

     const scrubber = new Scrubber(element, timeline, options)

   element   is emptied and filled.
   timeline  the document, as `Timeline.to_json` gives it.
   options   coupled: another Scrubber; a move of either moves both to the same time
             aligned: [here, there]: times that are the same moment of both, such as a fault's; after
                      it both go equally fast, before it so that they begin together
             index:   the event to begin at (default: the first fault, else the first event)
             marked:  {index, text}: an event that is marked on the track, such as a first difference
             record:  the record to follow from the beginning
             onFrame: called with {index, t, event, lanes} after each move; `lanes` is the state of
                      each lane, by its id: {kind, state, log}

   Methods: goTo(index), goToTime(t), follow(record | null), play(), pause(), update(timeline) for a
   run that has gone on, destroy(). `scrubber.model` answers questions about the timeline.

   Events are drawn on a canvas, so that 20,000 of them stay fluid; the state at the cursor is SVG. */

/* --- what a timeline says, without a page ------------------------------------------------------ */

class TimelineModel {
  static EVERY = 128; // events between two remembered states

  constructor(timeline) {
    this.timeline = timeline;
    this.lanes = timeline.lanes;
    this.events = timeline.events;
    this.row = new Map(this.lanes.map((lane, row) => [lane.id, row]));
    this.times = Float64Array.from(this.events, (event) => event.t);
    this.remembered = [];
    this.ofRecord = new Map();
    this.spans = this.lanes.map(() => []); // stretches in which a lane leads, is down, paused, cut
    this.#readThrough();
  }

  get length() { return this.events.length; }
  get end() { return this.length ? this.times[this.length - 1] : 0; }

  /* The last event at or before a time; 0 if there is none. */
  indexAt(t) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= t) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  /* The event that the arrival of a message is; -1 if none shows it. Several events may have its
     time: what comes of a message comes at once. */
  arrival(event) {
    const near = 1.5e-6; // times are rounded to microseconds
    for (let i = this.indexAt(event.arrives - near); i < this.length; i += 1) {
      if (this.times[i] > event.arrives + near) break;
      const {lane, record} = this.events[i];
      const isThen = Math.abs(this.times[i] - event.arrives) <= near;
      if (isThen && lane === event.to && record === event.record) return i;
    }
    return -1;
  }

  /* The state of each lane after an event, by the lane's id. */
  stateAt(index) {
    const near = this.remembered[Math.floor((index + 1) / TimelineModel.EVERY)];
    // Most moves are short and forward: go on from where the last one ended. Callers only look.
    const isOn = this.last && this.last.next <= index + 1 && this.last.next >= near.next;
    const from = isOn ? this.last : {next: near.next, lanes: TimelineModel.#copy(near.lanes)};
    for (let i = from.next; i <= index; i += 1) TimelineModel.#apply(from.lanes, this.events[i]);
    this.last = {next: index + 1, lanes: from.lanes};
    return from.lanes;
  }

  /* Numbers of the events of a record, in order. */
  story(record) { return this.ofRecord.get(record) ?? []; }

  /* The first event at which another timeline goes another way; -1 if there is none. */
  parting(other) {
    const key = (event) => event && JSON.stringify(
      [event.t, event.lane, event.kind, event.record, event.to, event.arrives]);
    const longer = Math.max(this.length, other.length);
    for (let i = 0; i < longer; i += 1) {
      if (key(this.events[i]) !== key(other.events[i])) return i;
    }
    return -1;
  }

  /* The first event that is a fault; -1 if there is none. */
  firstFault() { return this.events.findIndex((event) => TimelineModel.FAULTS.has(event.kind)); }

  /* Who it happens to, and what: the text without the name that it may begin with. */
  told(event) {
    const lane = this.lanes[this.row.get(event.lane)];
    const who = lane?.title ?? event.lane;
    const name = [who, event.lane].find((one) => event.text.startsWith(one)
      && /^[\s:,]/.test(event.text.slice(one.length)));
    return [who, name === undefined ? event.text : event.text.slice(name.length).replace(/^[\s:,]+/, "")];
  }

  /* What became of a record, as a sentence. */
  fate(record) {
    const found = this.timeline.records?.[record];
    if (!found) return "";
    const told = {
      trusted: "The program may rely on it",
      refused: "The program was told that it is not stored",
      unknown: "The program was told nothing",
    }[found.fate] ?? found.fate;
    const copies = found.copies === undefined ? "" : {
      0: "the log does not have it",
      1: "the log has it once",
    }[found.copies] ?? `the log has it ${found.copies} times`;
    const isLost = found.fate === "trusted" && found.copies === 0;
    const results = found.results > 1 ? `; it has ${found.results} results` : "";
    const verdict = isLost ? " It is lost." : found.copies > 1 ? " It is repeated." : "";
    return `${told}; ${copies}${results}.${verdict}`;
  }

  #readThrough() {
    const lanes = {};
    for (const lane of this.lanes) lanes[lane.id] = {kind: lane.kind, state: {}, log: []};
    this.remembered.push({next: 0, lanes: TimelineModel.#copy(lanes)});
    const open = new Map();
    this.events.forEach((event, index) => {
      TimelineModel.#apply(lanes, event);
      if (event.record) {
        if (!this.ofRecord.has(event.record)) this.ofRecord.set(event.record, []);
        this.ofRecord.get(event.record).push(index);
      }
      if (event.state) this.#span(open, event.lane, lanes[event.lane]?.state ?? {}, index);
      if ((index + 1) % TimelineModel.EVERY === 0) {
        this.remembered.push({next: index + 1, lanes: TimelineModel.#copy(lanes)});
      }
    });
    for (const span of open.values()) span.to = this.length;
  }

  #span(open, lane, state, index) {
    if (!this.row.has(lane)) return;
    const now = {
      leads: state.is_leader === true && state.is_up !== false,
      down: state.is_up === false,
      paused: state.is_paused === true,
      cut: state.is_cut === true,
    };
    for (const [what, holds] of Object.entries(now)) {
      const key = `${lane} ${what}`;
      if (holds && !open.has(key)) {
        const span = {what, from: index, to: this.length};
        open.set(key, span);
        this.spans[this.row.get(lane)].push(span);
      } else if (!holds && open.has(key)) {
        open.get(key).to = index;
        open.delete(key);
      }
    }
  }

  static #copy(lanes) {
    const copy = {};
    for (const [id, lane] of Object.entries(lanes)) {
      copy[id] = {kind: lane.kind, state: {...lane.state}, log: lane.log.slice()};
    }
    return copy;
  }

  static #apply(lanes, event) {
    const lane = lanes[event.lane];
    if (!lane) return;
    const before = lane.state.log_end_offset ?? lane.log.length;
    if (event.state) Object.assign(lane.state, event.state);
    if ((event.kind === "append" || event.kind === "replicate") && event.record) {
      const end = event.state?.log_end_offset ?? before + 1;
      lane.state.log_end_offset = end;
      lane.log[end - 1] = event.record;
    }
    const end = lane.state.log_end_offset;
    if (end !== undefined && end < lane.log.length) lane.log.length = end;
  }
}
TimelineModel.FAULTS = new Set(
  ["kill", "power-loss", "pause", "cut", "clock", "stop", "rebalance"]);

/* --- shapes: every kind of event has its own, colour only repeats what the shape says ---------- */

const Marks = (() => {
  /* Each draws around (0, 0) within about 6 units. `fill` and `stroke` of the context are set. */
  const poly = (c, ...points) => {
    c.beginPath();
    points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
  };
  const lines = (c, ...pairs) => {
    c.beginPath();
    for (const [x, y, u, v] of pairs) { c.moveTo(x, y); c.lineTo(u, v); }
    c.stroke();
  };
  const ring = (c, r) => { c.beginPath(); c.arc(0, 0, r, 0, 7); };
  const closed = (c) => { c.closePath(); c.fill(); };
  const hollow = (c) => { c.closePath(); c.save(); c.fillStyle = c.paper; c.fill(); c.restore(); c.stroke(); };

  const draw = {
    send: (c) => { ring(c, 2.6); hollow(c); },
    append: (c) => { poly(c, [-4, -4], [4, -4], [4, 4], [-4, 4]); closed(c); },
    replicate: (c) => { poly(c, [-4, -4], [4, -4], [4, 4], [-4, 4]); hollow(c); },
    advance: (c) => lines(c, [0, -5, 0, 5], [0, -5, 4, -2.5], [4, -2.5, 0, 0]),
    acknowledge: (c) => { c.lineWidth = 2; lines(c, [-4, 0, -1, 4], [-1, 4, 5, -4]); },
    refuse: (c) => { ring(c, 5); hollow(c); lines(c, [-3, 3, 3, -3]); },
    retry: (c) => lines(c, [-4, -4, 0, 0], [0, 0, -4, 4], [0, -4, 4, 0], [4, 0, 0, 4]),
    read: (c) => { poly(c, [-4.5, -3.5], [4.5, -3.5], [0, 4.5]); hollow(c); },
    process: (c) => { ring(c, 4.4); closed(c); },
    commit: (c) => { poly(c, [0, -5.5], [5, 0], [0, 5.5], [-5, 0]); closed(c); },
    abort: (c) => { poly(c, [0, -5.5], [5, 0], [0, 5.5], [-5, 0]); hollow(c); lines(c, [-2, -2, 2, 2], [-2, 2, 2, -2]); },
    truncate: (c) => { lines(c, [3, -5, 3, 5], [-5, -3, 0, 0], [-5, 3, 0, 0], [-5, 0, 3, 0]); },
    elect: (c) => { poly(c, [-6, 4], [-6, -3], [-3, 0], [0, -5], [3, 0], [6, -3], [6, 4]); closed(c); },
    isr: (c) => { for (const x of [-4, 0, 4]) { c.beginPath(); c.arc(x, 0, 1.8, 0, 7); c.fill(); } },
    kill: (c) => { c.lineWidth = 3; lines(c, [-5, -5, 5, 5], [-5, 5, 5, -5]); },
    "power-loss": (c) => { poly(c, [2, -7], [-4, 1], [-0.5, 1], [-2, 7], [4, -1], [0.5, -1]); closed(c); },
    pause: (c) => { c.lineWidth = 3; lines(c, [-2.5, -5, -2.5, 5], [2.5, -5, 2.5, 5]); },
    resume: (c) => { poly(c, [-3.5, -5], [5, 0], [-3.5, 5]); closed(c); },
    start: (c) => { poly(c, [0, -5.5], [5, 4], [-5, 4]); closed(c); },
    stop: (c) => { poly(c, [-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]); hollow(c); lines(c, [-2, 0, 2, 0]); },
    cut: (c) => { c.lineWidth = 2; lines(c, [-6, 0, -2, 0], [2, 0, 6, 0], [-2.5, 5, 2.5, -5]); },
    heal: (c) => { c.lineWidth = 2; lines(c, [-6, 0, 6, 0], [-2, -4, -2, 4], [2, -4, 2, 4]); },
    clock: (c) => { ring(c, 5); hollow(c); lines(c, [0, -3.5, 0, 0], [0, 0, 3, 0]); },
    rebalance: (c) => lines(c, [-6, -2.5, 6, -2.5], [3, -5, 6, -2.5], [-6, 2.5, 6, 2.5], [-3, 5, -6, 2.5]),
    note: (c) => { ring(c, 1.8); closed(c); },
  };
  const family = {
    send: "quiet", note: "quiet", advance: "store", append: "store", replicate: "store",
    truncate: "trouble", retry: "trouble", refuse: "trouble", abort: "trouble",
    acknowledge: "good", commit: "good", process: "good", read: "good",
    kill: "fault", "power-loss": "fault", pause: "fault", cut: "fault", clock: "fault", stop: "fault",
    elect: "change", isr: "change", resume: "change", start: "change", heal: "change",
    rebalance: "change",
  };
  const words = {
    send: "message leaves", append: "record in the leader's log", replicate: "record on a follower",
    advance: "high watermark or last stable offset moves", acknowledge: "producer learns: stored",
    refuse: "producer learns: not stored", retry: "producer sends again", read: "consumer is given it",
    process: "processed", commit: "committed", abort: "aborted", truncate: "log is cut",
    elect: "begins to lead", isr: "in-sync replicas change", kill: "killed",
    "power-loss": "power lost", pause: "paused", resume: "goes on", start: "starts", stop: "stops",
    cut: "network cut", heal: "network healed", clock: "clock jumps", rebalance: "rebalance",
    note: "note",
  };

  function paint(context, kind, x, y, colours, scale = 1) {
    const colour = colours[family[kind] ?? "quiet"];
    context.save();
    context.translate(x, y);
    context.scale(scale, scale);
    context.fillStyle = colour;
    context.strokeStyle = colour;
    context.paper = colours.paper;
    context.lineWidth = 1.5;
    context.setLineDash([]);
    (draw[kind] ?? draw.note)(context);
    context.restore();
  }

  return {paint, family, words, kinds: Object.keys(draw)};
})();

/* --- the track: lanes over time ---------------------------------------------------------------- */

class ScrubberTrack {
  static TOP = 24; // the axis
  static DENSE = 1500; // with more events in the window, messages are drawn faintly, and not all
  static COLOURS = ["ink", "quiet", "rule", "paper", "store", "good", "trouble", "fault", "change",
    "follow", "wash"];

  constructor(model, marked) {
    this.model = model;
    this.marked = marked;
    this.isByTime = false;
    this.from = 0;
    this.to = 1;
    this.followed = null;
    this.rowHeight = 50;
    this.base = Dom.html("canvas", {"aria-hidden": "true"});
    this.over = Dom.html("canvas", {"aria-hidden": "true"});
    this.element = Dom.html("div", {class: "track"}, this.base, this.over);
  }

  get height() { return ScrubberTrack.TOP + this.model.lanes.length * this.rowHeight + 2; }
  get whole() { return this.isByTime ? [0, Math.max(this.model.end, 1e-6)] : [-0.5, Math.max(1, this.model.length) - 0.5]; }

  /* Where an event, or a time, is along the track: in seconds, or in numbers of events. */
  along(index) { return this.isByTime ? this.model.times[index] : index; }
  alongTime(t) {
    if (this.isByTime) return t;
    const {times, length} = this.model;
    const i = this.model.indexAt(t);
    if (i >= length - 1 || t <= times[i]) return i;
    return i + (t - times[i]) / Math.max(times[i + 1] - times[i], 1e-9);
  }
  x(along) { return ((along - this.from) / (this.to - this.from)) * this.width; }
  alongAt(x) { return this.from + (x / this.width) * (this.to - this.from); }
  y(row) { return ScrubberTrack.TOP + (row + 0.5) * this.rowHeight; }

  show(from, to) {
    const [first, last] = this.whole;
    const smallest = this.isByTime ? Math.min(0.0005, last) : Math.min(8, last - first);
    const width = Math.min(Math.max(to - from, smallest), last - first);
    this.from = Math.min(Math.max(from, first), last - width);
    this.to = this.from + width;
    this.draw();
  }

  zoom(factor, centre) {
    const width = (this.to - this.from) * factor;
    const share = (centre - this.from) / (this.to - this.from);
    this.show(centre - width * share, centre + width * (1 - share));
  }

  /* Move the window, if it must be, so that a place is well inside. */
  reveal(along) {
    const width = this.to - this.from;
    if (along < this.from + width * 0.04 || along > this.to - width * 0.04) {
      this.show(along - width / 2, along + width / 2);
    }
  }

  resize() {
    // Measured here and not for every frame: it makes the browser lay the page out.
    this.width = this.element.clientWidth;
    this.rowHeight = this.width < 480 ? 44 : 50;
    if (!this.width) return;
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 3);
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.style.height = `${this.height}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.element.style.height = `${this.height}px`;
    this.readColours();
    this.draw();
  }

  readColours() {
    const style = getComputedStyle(this.element);
    this.colours = {};
    for (const name of ScrubberTrack.COLOURS) {
      this.colours[name] = style.getPropertyValue(`--${name}`).trim() || "#000";
    }
    this.font = style.getPropertyValue("--sans").trim() || "sans-serif";
  }

  /* Numbers of the events within the window, with a little more on both sides. */
  visible() {
    const {length} = this.model;
    if (!this.isByTime) {
      return [Math.max(0, Math.floor(this.from) - 1), Math.min(length, Math.ceil(this.to) + 2)];
    }
    const first = this.model.indexAt(this.from);
    return [Math.max(0, first - 1), Math.min(length, this.model.indexAt(this.to) + 2)];
  }

  draw() {
    if (!this.width) return;
    const c = this.base.getContext("2d");
    c.clearRect(0, 0, this.width, this.height);
    this.#drawAxis(c);
    this.model.lanes.forEach((_, row) => this.#drawLane(c, row));
    if (this.marked && this.marked.index >= 0) this.#drawMarked(c);
    const [first, last] = this.visible();
    const alpha = this.followed === null ? 1 : 0.25;
    c.globalAlpha = alpha * (last - first > ScrubberTrack.DENSE ? 0.3 : 1);
    this.#drawMessages(c, first, last);
    c.globalAlpha = alpha;
    this.#drawMarks(c, first, last);
    c.globalAlpha = 1;
  }

  /* The cursor, and the record that is followed. Called for every frame, so it draws little. */
  drawOver(index, t) {
    if (!this.width) return;
    const c = this.over.getContext("2d");
    c.clearRect(0, 0, this.width, this.height);
    if (this.followed !== null) this.#drawFollowed(c);
    const x = Math.round(this.x(this.isByTime ? t : this.alongTime(t))) + 0.5;
    const here = Math.round(this.x(this.along(index))) + 0.5;
    const at = !this.isByTime && this.model.times[index] >= t ? here : x;
    c.strokeStyle = c.fillStyle = this.colours.ink;
    c.lineWidth = 1.25;
    c.beginPath();
    c.moveTo(at, ScrubberTrack.TOP - 6);
    c.lineTo(at, this.height);
    c.stroke();
    c.beginPath();
    c.moveTo(at - 5, ScrubberTrack.TOP - 12);
    c.lineTo(at + 5, ScrubberTrack.TOP - 12);
    c.lineTo(at, ScrubberTrack.TOP - 4);
    c.fill();
    const row = this.model.row.get(this.model.events[index]?.lane);
    if (row !== undefined) {
      c.lineWidth = 2;
      c.beginPath();
      c.arc(here, this.y(row), 9.5, 0, 7);
      c.stroke();
    }
  }

  /* The event nearest to a point, within reach of a finger. */
  nearest(x, y) {
    const [first, last] = this.visible();
    let best = null;
    let least = 16 * 16;
    for (let i = first; i < last; i += 1) {
      const row = this.model.row.get(this.model.events[i].lane);
      if (row === undefined) continue;
      const far = (this.x(this.along(i)) - x) ** 2 + (this.y(row) - y) ** 2;
      if (far < least) { least = far; best = i; }
    }
    return best;
  }

  #drawAxis(c) {
    const {colours} = this;
    c.font = `11px ${this.font}`;
    c.fillStyle = colours.quiet;
    c.strokeStyle = colours.rule;
    c.lineWidth = 1;
    c.textAlign = "center";
    const wanted = Math.max(2, Math.floor(this.width / 110));
    const step = ScrubberTrack.step((this.to - this.from) / wanted, !this.isByTime);
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      const t = this.isByTime ? at : this.model.times[Math.round(at)];
      if (t === undefined || at < 0) continue;
      c.beginPath();
      c.moveTo(x, ScrubberTrack.TOP - 3);
      c.lineTo(x, this.height);
      c.stroke();
      if (x > 22 && x < this.width - 22) c.fillText(ScrubberTrack.clock(t, this.isByTime ? step : 0), x, 11);
    }
  }

  static step(least, isWhole) {
    const power = 10 ** Math.floor(Math.log10(least));
    const found = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
    return isWhole ? Math.max(1, Math.round(found)) : found;
  }

  static clock(t, step) {
    const places = step ? Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)) : 3;
    return `${t.toFixed(Math.min(places, 6))} s`;
  }

  #drawLane(c, row) {
    const {colours} = this;
    const y = Math.round(this.y(row)) + 0.5;
    c.strokeStyle = colours.rule;
    c.setLineDash([]);
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(0, y);
    c.lineTo(this.width, y);
    c.stroke();
    for (const {what, from, to} of this.model.spans[row]) {
      const start = Math.max(0, this.x(this.along(from)));
      const end = Math.min(this.width, to >= this.model.length ? this.width : this.x(this.along(to)));
      if (end <= 0 || start >= this.width || end <= start) continue;
      this.#drawSpan(c, what, start, end, y);
    }
  }

  #drawSpan(c, what, start, end, y) {
    const {colours} = this;
    if (what === "leads") {
      c.fillStyle = colours.wash;
      c.fillRect(start, y - 13, end - start, 26);
      c.fillStyle = colours.change;
      c.fillRect(start, y - 14, end - start, 2);
      return;
    }
    if (what === "down") {
      c.fillStyle = colours.paper;
      c.fillRect(start, y - 2, end - start, 4);
    }
    c.strokeStyle = colours.fault;
    c.lineWidth = what === "down" ? 1.25 : 3;
    c.setLineDash({down: [1.5, 5], paused: [9, 5], cut: [2, 3]}[what]);
    c.beginPath();
    c.moveTo(start, what === "cut" ? y + 14 : y);
    c.lineTo(end, what === "cut" ? y + 14 : y);
    c.stroke();
    c.setLineDash([]);
  }

  #drawMarked(c) {
    const x = Math.round(this.x(this.along(Math.min(this.marked.index, this.model.length - 1)))) + 0.5;
    if (x < 0 || x > this.width) return;
    c.strokeStyle = c.fillStyle = this.colours.follow;
    c.lineWidth = 1.5;
    c.setLineDash([6, 3, 1.5, 3]);
    c.beginPath();
    c.moveTo(x, ScrubberTrack.TOP - 4);
    c.lineTo(x, this.height);
    c.stroke();
    c.setLineDash([]);
    c.font = `600 11px ${this.font}`;
    const isLeft = x < this.width * 0.6;
    c.textAlign = isLeft ? "left" : "right";
    const place = [this.marked.text, x + (isLeft ? 6 : -6), this.height - 5];
    c.strokeStyle = this.colours.paper;
    c.lineWidth = 4;
    c.strokeText(...place);
    c.fillText(...place);
  }

  #drawMessages(c, first, last) {
    const seen = new Set();
    const isDense = last - first > ScrubberTrack.DENSE;
    for (let i = first; i < last; i += 1) {
      const event = this.model.events[i];
      if (event.to === undefined) continue;
      if (isDense) {
        const key = `${event.lane} ${event.to} ${Math.round(this.x(this.along(i)) / 3)}`;
        if (seen.has(key) && event.arrives !== undefined) continue;
        seen.add(key);
      }
      this.#drawMessage(c, i, event, false);
    }
  }

  #drawMessage(c, index, event, isFollowed) {
    const from = this.model.row.get(event.lane);
    const to = this.model.row.get(event.to);
    if (from === undefined || to === undefined) return;
    const isLost = event.arrives === undefined || event.arrives === null;
    const x = this.x(this.along(index));
    const y = this.y(from);
    const arrival = isLost || this.isByTime ? -1 : this.model.arrival(event);
    let u = isLost ? x + 26 : this.x(arrival > index ? arrival : this.alongTime(event.arrives));
    let v = this.y(to);
    if (isLost) v = y + (v - y) * 0.55;
    else if (u - x < 1) u = x + 1;
    const {colours} = this;
    c.strokeStyle = isFollowed ? colours.follow : isLost ? colours.fault : colours.quiet;
    c.lineWidth = isFollowed ? 2.5 : event.record === undefined ? 0.7 : 1.1;
    c.setLineDash(isLost ? [4, 3] : event.record === undefined ? [1.5, 2.5] : []);
    c.beginPath();
    c.moveTo(x, y);
    c.lineTo(u, v);
    c.stroke();
    c.setLineDash([]);
    if (!isLost) return;
    c.lineWidth = 2;
    c.beginPath();
    c.moveTo(u - 4, v - 4); c.lineTo(u + 4, v + 4);
    c.moveTo(u + 4, v - 4); c.lineTo(u - 4, v + 4);
    c.stroke();
  }

  #drawMarks(c, first, last) {
    // Of marks of the same kind at the same place one is enough; faults come on top of all.
    const seen = new Set();
    const onTop = [];
    for (let i = first; i < last; i += 1) {
      const event = this.model.events[i];
      const row = this.model.row.get(event.lane);
      if (row === undefined) continue;
      const x = this.x(this.along(i));
      if (Marks.family[event.kind] === "fault" || event.kind === "elect") {
        onTop.push([event.kind, x, row]);
        continue;
      }
      const key = `${row} ${event.kind} ${Math.round(x / 2)}`;
      if (seen.has(key)) continue;
      seen.add(key);
      Marks.paint(c, event.kind, x, this.y(row), this.colours);
    }
    c.globalAlpha = 1;
    for (const [kind, x, row] of onTop) {
      Marks.paint(c, kind, x, this.y(row), this.colours, 1.25);
    }
  }

  #drawFollowed(c) {
    let before = null;
    c.lineJoin = "round";
    for (const index of this.model.story(this.followed)) {
      const event = this.model.events[index];
      const row = this.model.row.get(event.lane);
      if (row === undefined) continue;
      const at = [this.x(this.along(index)), this.y(row)];
      if (event.to !== undefined) this.#drawMessage(c, index, event, true);
      if (before && before[1] === at[1]) {
        c.strokeStyle = this.colours.follow;
        c.lineWidth = 2.5;
        c.beginPath();
        c.moveTo(...before);
        c.lineTo(...at);
        c.stroke();
      }
      Marks.paint(c, event.kind, ...at, this.colours, 1.3);
      before = at;
    }
  }
}

/* --- the state at the cursor ------------------------------------------------------------------- */

class ScrubberState {
  static ROW = 48;

  constructor(model, onRecord) {
    this.model = model;
    this.onRecord = onRecord;
    this.width = 700; // in pixels; measured when the page changes, not for every frame
    this.left = 0; // where logs begin: where the track does
    this.element = Dom.html("div", {class: "state"});
  }

  show(lanes, followed) {
    const rows = this.model.lanes.filter((lane) => lane.kind !== "controller");
    const others = this.model.lanes.filter((lane) => lane.kind === "controller");
    const {width} = this;
    const left = Math.max(92, this.left);
    const cell = ScrubberState.cell(this.model);
    const fits = Math.max(3, Math.floor((width - left - 40) / cell));
    const first = this.#firstOffset(lanes, fits, followed);
    const height = 22 + rows.length * ScrubberState.ROW;
    const place = {left, first, fits, cell, width, x: (offset) => left + (offset - first) * cell};
    const drawing = Dom.svg("svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": rows.map((lane) => ScrubberState.words(lane, lanes[lane.id])).join(". "),
    });
    drawing.append(this.#axis(place));
    rows.forEach((lane, row) => {
      const group = Dom.svg("g", {
        class: `lane-state ${lane.kind}`, "data-lane": lane.id,
        transform: `translate(0 ${22 + row * ScrubberState.ROW})`,
      });
      const draw = {broker: this.#broker, consumer: this.#consumer}[lane.kind] ?? this.#client;
      draw.call(this, group, lane, lanes[lane.id], place, followed);
      drawing.append(group);
    });
    const notes = others.filter((lane) => ScrubberState.facts(lanes[lane.id].state).length).map((lane) => Dom.html("p", {class: "lane-words"},
      ScrubberState.words(lane, lanes[lane.id])));
    this.element.replaceChildren(drawing, ...notes);
  }

  #firstOffset(lanes, fits, followed) {
    let end = 0;
    let at = -1;
    for (const lane of Object.values(lanes)) {
      end = Math.max(end, lane.state.log_end_offset ?? 0);
      if (followed !== null && at < 0) at = lane.log.indexOf(followed);
    }
    const last = Math.max(0, end + 1 - fits);
    return at < 0 ? last : Math.min(last, Math.max(0, at - Math.floor(fits / 2)));
  }

  #axis(place) {
    const group = Dom.svg("g", {class: "offsets"},
      Dom.svg("text", {x: place.left - 10, y: 12, class: "end"}, "offset"));
    const every = place.fits > 14 ? 5 : 2;
    for (let offset = place.first; offset < place.first + place.fits; offset += 1) {
      if (offset % every) continue;
      group.append(Dom.svg("text", {x: place.x(offset) + place.cell / 2, y: 12, class: "mid"}, offset));
    }
    return group;
  }

  #title(group, lane, lines) {
    group.append(Dom.svg("text", {x: 0, y: 15, class: "lane-name"}, lane.title));
    if (lines) group.append(Dom.svg("text", {x: 0, y: 30, class: "lane-standing"}, lines));
  }

  #broker(group, lane, {state, log}, place, followed) {
    const end = state.log_end_offset ?? 0;
    const watermark = state.high_watermark;
    const standing = ScrubberState.standing(lane, state);
    this.#title(group, lane, standing.filter((word) => !word.startsWith("ISR")).join(" · "));
    const isr = standing.find((word) => word.startsWith("ISR"));
    if (isr) group.append(Dom.svg("text", {x: 0, y: 43, class: "lane-standing isr"}, isr));
    if (state.is_up === false) group.setAttribute("opacity", "0.5");
    if (place.first > 0) group.append(Dom.svg("text", {x: place.left - 6, y: 20, class: "end more"}, "…"));
    const last = Math.min(end, place.first + place.fits);
    for (let offset = place.first; offset < last; offset += 1) {
      const record = log[offset];
      const isBelow = watermark === undefined || offset < watermark;
      const box = Dom.svg("g", {
        class: `box ${isBelow ? "below" : "above"}${record !== undefined && record === followed ? " followed" : ""}`,
        transform: `translate(${place.x(offset)} 5)`,
      }, Dom.svg("rect", {x: 1, y: 0, width: place.cell - 2, height: 20, rx: 2}));
      if (record !== undefined) {
        box.append(
          Dom.svg("title", {}, `${record}, offset ${offset}. Click to follow it.`),
          Dom.svg("text", {x: place.cell / 2, y: 14, class: "mid"}, ScrubberState.short(record)));
        box.addEventListener("click", () => this.onRecord(record));
      }
      group.append(box);
    }
    this.#flag(group, place, watermark, "HW", "watermark");
    if (state.last_stable_offset !== watermark) this.#flag(group, place, state.last_stable_offset, "LSO", "stable");
    if (end <= place.first + place.fits) {
      group.append(Dom.svg("text", {x: place.x(end) + 6, y: 19, class: "log-end"}, `${end}`));
    }
  }

  #flag(group, place, offset, text, style) {
    if (offset === undefined || offset < place.first || offset > place.first + place.fits) return;
    const x = place.x(offset);
    group.append(Dom.svg("g", {class: `flag ${style}`, transform: `translate(${x} 0)`},
      Dom.svg("path", {d: style === "stable" ? "M0 1V36M0 27l6 4-6 4" : "M0 1V36"}),
      Dom.svg("text", {x: style === "stable" ? 9 : -3, y: 36, class: style === "stable" ? "" : "end"}, text)));
  }

  #consumer(group, lane, {state}, place) {
    this.#title(group, lane, ScrubberState.standing(lane, state).join(" · "));
    for (const [name, y, d, word] of [
      ["position", 12, "M0 0l-5-8h10z", "position"], ["committed", 18, "M0 0l-5 8h10z", "committed"],
    ]) {
      const offset = state[name];
      if (typeof offset !== "number") continue;
      const isAway = offset < place.first || offset > place.first + place.fits;
      const x = isAway ? place.left - 2 : place.x(offset);
      const isLate = x > place.width - 110;
      group.append(Dom.svg("g", {class: name, transform: `translate(${x} ${y})`},
        Dom.svg("path", {d}),
        Dom.svg("text", {x: isLate ? -9 : 9, y: name === "position" ? 0 : 9, class: isLate ? "end" : ""},
          `${word} ${offset}`)));
    }
    group.append(Dom.svg("path", {class: "base", d: `M${place.left} 15H${place.x(place.first + place.fits)}`}));
  }

  #client(group, lane, {state}, place) {
    this.#title(group, lane, ScrubberState.standing(lane, state).join(" · "));
    const words = ScrubberState.facts(state).join(" · ");
    group.append(Dom.svg("text", {x: place.left, y: 19, class: "facts"}, words));
  }

  /* How wide a box is: it has room for the longest name, up to six letters. */
  static cell(model) {
    if (model.cell === undefined) {
      let longest = 0;
      for (const record of model.ofRecord.keys()) longest = Math.max(longest, record.length);
      model.cell = Math.max(26, 8 + 6.2 * Math.min(6, longest));
    }
    return model.cell;
  }

  static short(record) { return record.length <= 6 ? record : `…${record.slice(-5)}`; }

  /* Up or not, leader or not, epoch, in-sync replicas. */
  static standing(lane, state) {
    const words = [];
    if (state.is_up === false) words.push("down");
    if (state.is_paused) words.push("paused");
    if (state.is_cut) words.push("cut off");
    if (state.is_leader && state.is_up !== false) words.push("♛ leader");
    if (state.leader_epoch !== undefined) words.push(`epoch ${state.leader_epoch}`);
    if (state.is_leader && state.isr) words.push(`ISR ${[].concat(state.isr).join(" ")}`);
    return words;
  }

  static facts(state) {
    const shown = [];
    for (const [name, value] of Object.entries(state)) {
      if (name.startsWith("is_")) continue;
      const text = Array.isArray(value) ? value.length : value;
      shown.push(`${name.replaceAll("_", " ")} ${text}`);
    }
    return shown;
  }

  /* The same as text, for those who hear the page. */
  static words(lane, {state}) {
    const standing = ScrubberState.standing(lane, state).filter((word) => !word.startsWith("epoch"));
    const facts = ScrubberState.facts(state);
    return `${lane.title}: ${[...standing, ...facts].join(", ") || "no state"}`;
  }
}

/* --- the whole: track, controls, state, story -------------------------------------------------- */

class Scrubber {
  static number = 0;

  constructor(element, timeline, options = {}) {
    this.element = element;
    this.options = options;
    this.partners = new Map(); // what its time is, for a time of ours
    this.index = 0;
    this.t = 0;
    this.followed = null;
    this.playing = 0;
    this.speed = 8;
    Scrubber.number += 1;
    this.name = `scrubber-${Scrubber.number}`;
    this.#build(timeline);
    if (options.coupled) this.couple(options.coupled, options.aligned);
    this.#listen();
    this.#size();
    const fault = this.model.firstFault();
    this.#begin(options.index ?? Math.max(0, fault));
    if (options.record) this.follow(options.record);
  }

  couple(other, [here, there] = [0, 0]) {
    const along = (from, to) => (t) => (t >= from || from <= 0 ? t - from + to : t * (to / from));
    this.partners.set(other, along(here, there));
    other.partners.set(this, along(there, here));
  }

  goTo(index, isSaid = true) {
    if (!this.model.length) return;
    this.index = Math.min(Math.max(0, index), this.model.length - 1);
    this.t = this.model.times[this.index];
    this.#moved(isSaid);
  }

  goToTime(t, isSaid = true) {
    if (!this.model.length) return;
    this.t = Math.min(Math.max(t, this.model.times[0]), this.model.end);
    this.index = this.model.indexAt(this.t);
    this.#moved(isSaid);
  }

  /* Follow a record through all lanes, here and in the coupled timelines; null follows none. */
  follow(record) {
    this.#follow(record);
    for (const partner of this.partners.keys()) partner.#follow(record);
  }

  play() {
    if (this.playing || !this.model.length) return;
    if (this.index >= this.model.length - 1) this.goTo(0, false);
    for (const partner of this.partners.keys()) partner.pause();
    this.button.textContent = "Pause";
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let before = performance.now();
    let along = this.track.alongTime(this.t);
    if (!this.isByTime) along = Math.max(along, this.index);
    const step = (now) => {
      along += ((now - before) / 1000) * this.speed;
      before = now;
      this.#playTo(along, isStill);
      if (this.index >= this.model.length - 1) this.pause();
      if (this.playing) this.playing = requestAnimationFrame(step);
    };
    this.playing = requestAnimationFrame(step);
  }

  pause() {
    if (!this.playing) return;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.button.textContent = "Play";
    this.#say();
  }

  update(timeline) {
    const isAtEnd = this.index >= this.model.length - 1;
    const isWhole = this.track.to - this.track.from >= this.track.whole[1] - this.track.whole[0];
    this.model = this.track.model = this.state.model = new TimelineModel(timeline);
    this.slider.max = Math.max(0, this.model.length - 1);
    this.#offerRecords();
    this.#ends();
    this.#size();
    if (isWhole) this.#window();
    else this.track.show(this.track.from, this.track.to);
    this.goTo(isAtEnd ? this.model.length - 1 : this.index, false);
  }

  destroy() {
    this.pause();
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.repaint);
    this.print.removeEventListener("change", this.repaint);
    for (const partner of this.partners.keys()) partner.partners.delete(this);
    this.element.replaceChildren();
  }

  get isByTime() { return this.track.isByTime; }

  /* --- inside --- */

  #follow(record) {
    this.followed = record !== null && this.model.ofRecord.has(record) ? record : null;
    this.track.followed = this.followed;
    this.track.draw();
    this.#frame();
    this.#tell();
  }

  #build(timeline) {
    this.model = new TimelineModel(timeline);
    this.track = new ScrubberTrack(this.model, this.options.marked);
    this.state = new ScrubberState(this.model, (record) => this.follow(record));
    this.labels = Dom.html("div", {class: "labels", "aria-hidden": "true"});
    this.hint = Dom.html("div", {class: "hint", hidden: true});
    this.now = Dom.html("p", {class: "now"});
    this.said = Dom.html("div", {class: "heard", role: "status", "aria-live": "polite"});
    this.story = Dom.html("div", {class: "story"});
    this.ends = Dom.html("p", {class: "ends"});
    this.#ends();
    this.element.classList.add("scrubber");
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", `Timeline: ${timeline.title}`);
    this.element.replaceChildren(...[
      Dom.html("div", {class: "lanes"}, this.labels, this.track.element, this.hint),
      this.#controls(), this.now, this.said, this.state.element, this.ends, this.story, this.#legend()].filter(Boolean));
  }

  #controls() {
    const button = (text, label, act) => Dom.html("button",
      {type: "button", "aria-label": label, title: label, onclick: act}, text);
    this.slider = Dom.html("input", {
      type: "range", min: 0, max: Math.max(0, this.model.length - 1), step: 1, value: 0,
      "aria-label": "Event", oninput: () => this.goTo(Number(this.slider.value)),
    });
    this.button = button("Play", "Play or pause (space)", () => this.#toggle());
    this.button.classList.add("play");
    this.speeds = Dom.html("select", {
      "aria-label": "Speed", onchange: () => { this.speed = Number(this.speeds.value); },
    });
    this.scale = Dom.html("select", {"aria-label": "Scale", onchange: () => this.#rescale()},
      Dom.html("option", {value: "events"}, "event by event"), Dom.html("option", {value: "time"}, "true to time"));
    this.records = Dom.html("select", {
      "aria-label": "Follow a record", onchange: () => this.follow(this.records.value || null),
    });
    this.#offerSpeeds();
    this.#offerRecords();
    const zoom = (factor) => () => { this.track.zoom(factor, this.#place()); this.#frame(); };
    return Dom.html("div", {class: "controls"},
      Dom.html("div", {class: "transport"},
        button("⇤", "First event (Home)", () => this.goTo(0)),
        button("‹", "Event before (left arrow)", () => this.goTo(this.index - 1)),
        this.button,
        button("›", "Next event (right arrow)", () => this.goTo(this.index + 1)),
        button("⇥", "Last event (End)", () => this.goTo(this.model.length - 1))),
      this.slider,
      Dom.html("div", {class: "choices"},
        this.speeds, this.scale, this.records,
        Dom.html("span", {class: "zoom"}, button("−", "Zoom out (−)", zoom(1.6)), button("+", "Zoom in (+)", zoom(1 / 1.6)),
          button("all", "Show the whole run (0)", () => { this.track.show(...this.track.whole); this.#frame(); }))));
  }

  /* Records that were lost or repeated, to be followed. */
  #ends() {
    const records = Object.entries(this.model.timeline.records ?? {});
    const lost = records.filter(([, one]) => one.fate === "trusted" && one.copies === 0);
    const repeated = records.filter(([, one]) => one.copies > 1);
    const list = (word, found) => found.length > 0 && [
      Dom.html("b", {}, word), found.slice(0, 8).map(([record]) => Dom.html("button",
        {type: "button", "aria-label": `Follow ${record}`, onclick: () => this.follow(record)}, record)),
      found.length > 8 && `and ${found.length - 8} more`];
    const parts = [list("Lost:", lost), list("Repeated:", repeated)].flat(2).filter(Boolean);
    this.ends.replaceChildren(...parts);
    this.ends.hidden = !parts.length;
  }

  #legend() {
    this.legend = Dom.html("details", {class: "legend"}, Dom.html("summary", {}, "What the marks mean"));
    this.legend.addEventListener("toggle", () => { if (this.legend.open) this.#fillLegend(); });
    return this.legend;
  }

  #fillLegend() {
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 3);
    const kinds = Marks.kinds.map((kind) => {
      const canvas = Dom.html("canvas", {width: 20 * ratio, height: 20 * ratio, "aria-hidden": "true"});
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      Marks.paint(context, kind, 10, 10, this.track.colours, 1.1);
      return Dom.html("li", {}, canvas, Marks.words[kind]);
    });
    this.legend.replaceChildren(this.legend.firstChild,
      Dom.html("ul", {class: "marks"}, kinds),
      Dom.html("p", {}, "A line is a message; it leans to the right while it is under way. A dashed one "
        + "that ends in a cross is lost. A shaded lane leads; a dotted one is down, a dashed one paused; "
        + "dots under a lane: it is cut off. In a log, filled boxes are below the high watermark (HW); "
        + "LSO is the last stable offset, where it differs."),
      Dom.html("p", {}, "Keys: arrows step by event, with shift by second; Home, End; space plays; "
        + "Enter follows the record of the event, Escape leaves it; + − 0 zoom."));
  }

  #listen() {
    this.element.addEventListener("keydown", (event) => this.#key(event));
    const {element} = this.track;
    let isDown = false;
    const place = (event) => {
      const box = element.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    element.addEventListener("pointerdown", (event) => {
      const [x, y] = place(event);
      const near = this.track.nearest(x, y);
      isDown = near === null;
      if (near === null) return this.#drag(x);
      this.goTo(near);
      const {record} = this.model.events[near];
      if (record) this.follow(record);
    });
    element.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (isDown && event.buttons) this.#drag(x);
      this.#showHint(this.track.nearest(x, y), x, y);
    });
    element.addEventListener("pointerleave", () => { this.hint.hidden = true; });
    globalThis.addEventListener("pointerup", () => { isDown = false; });
    element.addEventListener("wheel", (event) => this.#wheel(event, place(event)[0]), {passive: false});
    this.watch = new ResizeObserver(() => this.#size());
    this.watch.observe(this.element);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => { this.track.readColours(); this.track.draw(); this.#frame(); };
    this.scheme.addEventListener("change", this.repaint);
    this.print = matchMedia("print");
    this.print.addEventListener("change", this.repaint);
  }

  #drag(x) {
    const along = this.track.alongAt(x);
    if (this.isByTime) this.goToTime(along);
    else this.goTo(Math.round(along));
  }

  #wheel(event, x) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.track.zoom(Math.exp(event.deltaY * 0.004), this.track.alongAt(x));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const by = (event.deltaX / this.track.width) * (this.track.to - this.track.from);
      this.track.show(this.track.from + by, this.track.to + by);
    } else return;
    this.#frame();
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const isSelect = event.target instanceof HTMLSelectElement;
    if (isSelect && event.key !== "Escape") return;
    const isButton = event.target instanceof HTMLButtonElement || event.target.tagName === "SUMMARY";
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (by && event.shiftKey) this.goToTime(this.t + by);
    else if (by) this.goTo(this.index + by);
    else if (event.key === "Home") this.goTo(0);
    else if (event.key === "End") this.goTo(this.model.length - 1);
    else if (event.key === " " && !isButton) this.#toggle();
    else if (event.key === "Enter" && !isButton) this.follow(this.model.events[this.index]?.record ?? null);
    else if (event.key === "Escape" && this.followed !== null) this.follow(null);
    else if (event.key === "+" || event.key === "=") this.track.zoom(1 / 1.6, this.#place());
    else if (event.key === "-") this.track.zoom(1.6, this.#place());
    else if (event.key === "0") this.track.show(...this.track.whole);
    else return;
    event.preventDefault();
    this.#frame();
  }

  #toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  #playTo(along, isStill) {
    if (this.isByTime && !isStill) return this.goToTime(along, false);
    const index = Math.floor(along);
    if (this.isByTime || isStill || index >= this.model.length - 1) {
      const at = this.isByTime ? this.model.indexAt(along) : index;
      if (at !== this.index) this.goTo(at, false);
      return undefined;
    }
    const {times} = this.model;
    this.index = index;
    this.t = times[index] + (along - index) * (times[index + 1] - times[index]);
    return this.#moved(false);
  }

  #rescale() {
    this.track.isByTime = this.scale.value === "time";
    this.#offerSpeeds();
    this.#window();
    this.#frame();
  }

  #offerSpeeds() {
    const speeds = this.isByTime
      ? [[0.01, "1/100 of true speed"], [0.1, "1/10 of true speed"], [1, "true speed"], [10, "10 × true speed"]]
      : [[2, "2 events a second"], [8, "8 events a second"], [30, "30 events a second"], [200, "200 events a second"]];
    this.speeds.replaceChildren(...speeds.map(([value, text]) => Dom.html("option", {value}, text)));
    this.speeds.selectedIndex = 1;
    this.speed = speeds[1][0];
  }

  #offerRecords() {
    const records = [...this.model.ofRecord.keys()];
    this.records.replaceChildren(Dom.html("option", {value: ""}, "follow a record …"),
      ...records.map((record) => Dom.html("option", {value: record}, `follow ${record}`)));
    if (this.followed !== null) this.records.value = this.followed;
  }

  #begin(index) {
    this.goTo(index, false);
    this.#window();
    this.#frame();
  }

  /* As many events as can be told apart, around the cursor. */
  #window() {
    const [first, last] = this.track.whole;
    const fits = Math.max(20, (this.track.width || 700) / 15);
    const share = Math.min(1, fits / Math.max(1, this.model.length));
    const place = this.#place();
    const width = (last - first) * share;
    this.track.show(place - width / 2, place + width / 2);
  }

  #place() { return this.isByTime ? this.t : Math.max(this.index, this.track.alongTime(this.t)); }

  #size() {
    this.track.resize();
    this.state.left = this.track.element.offsetLeft;
    this.state.width = Math.max(260, this.element.clientWidth || 700);
    const style = `height: ${this.track.rowHeight}px`;
    this.labels.style.paddingTop = `${ScrubberTrack.TOP}px`;
    this.labelRows = this.model.lanes.map((lane) => Dom.html("div", {style, class: `label ${lane.kind}`},
      Dom.html("b", {}, lane.title), Dom.html("span", {})));
    this.labels.replaceChildren(...this.labelRows);
    this.#frame();
  }

  #moved(isSaid) {
    this.track.reveal(this.#place());
    this.#frame();
    if (isSaid) this.#say();
    for (const [partner, time] of this.partners) partner.#moveWith(time(this.t));
  }

  #moveWith(t) {
    if (!this.model.length) return;
    this.t = Math.min(Math.max(t, this.model.times[0]), this.model.end);
    this.index = this.model.indexAt(this.t);
    this.track.reveal(this.#place());
    this.#frame();
  }

  #frame() {
    if (!this.model.length) {
      this.now.textContent = "Nothing has happened yet.";
      return;
    }
    const event = this.model.events[this.index];
    const lanes = this.model.stateAt(this.index);
    this.slider.value = this.index;
    this.slider.setAttribute("aria-valuetext", this.#words(event));
    this.track.drawOver(this.index, this.t);
    this.state.show(lanes, this.followed);
    this.labelRows?.forEach((row, i) => {
      const lane = this.model.lanes[i];
      const words = ScrubberState.standing(lane, lanes[lane.id].state);
      row.lastChild.textContent = words.filter((word) => !word.startsWith("ISR")).join(" · ");
      row.classList.toggle("off", lanes[lane.id].state.is_up === false);
    });
    this.now.replaceChildren(
      Dom.html("span", {class: "when"}, `${this.t.toFixed(4)} s`), " ",
      this.#told(event), Dom.html("span", {class: "of"}, ` event ${Dom.count(this.index + 1)} of ${Dom.count(this.model.length)}`));
    this.options.onFrame?.({index: this.index, t: this.t, event, lanes});
  }

  #told(event) {
    const [who, what] = this.model.told(event);
    return Dom.html("span", {}, Dom.html("b", {}, who), ` ${what}`);
  }

  #words(event) { return `${event.t.toFixed(4)} s, ${this.model.told(event).join(" ")}`; }

  #say() { this.said.textContent = this.#words(this.model.events[this.index]); }

  #showHint(index, x, y) {
    this.hint.hidden = index === null;
    if (index === null) return;
    const event = this.model.events[index];
    this.hint.textContent = this.#words(event);
    const left = this.track.element.offsetLeft;
    const isRight = x > this.track.width / 2;
    this.hint.style.left = isRight ? "auto" : `${left + x + 14}px`;
    this.hint.style.right = isRight ? `${this.track.width - x + 14}px` : "auto";
    this.hint.style.top = `${Math.max(0, y - 30)}px`;
  }

  /* The story of the record that is followed, in words. */
  #tell() {
    const {followed} = this;
    this.records.value = followed ?? "";
    if (followed === null) {
      this.story.replaceChildren();
      return;
    }
    const events = this.model.story(followed);
    const shown = events.length > 200 ? events.slice(0, 200) : events;
    const rest = events.length - shown.length;
    this.story.replaceChildren(
      Dom.html("h4", {id: `${this.name}-story`}, `Record ${followed}`),
      Dom.html("p", {class: "fate"}, this.model.fate(followed)),
      Dom.html("ol", {"aria-labelledby": `${this.name}-story`}, shown.map((index) => {
        const event = this.model.events[index];
        return Dom.html("li", {}, Dom.html("button", {type: "button", onclick: () => this.goTo(index)},
          Dom.html("span", {class: "when"}, `${event.t.toFixed(4)} s`), " ",
          this.#told(event)));
      })),
      rest ? Dom.html("p", {}, `and ${Dom.count(rest)} more events`) : "",
      Dom.html("button", {type: "button", class: "leave", onclick: () => this.follow(null)}, "Stop following"));
    this.said.textContent = `Following ${followed}: ${events.length} events. ${this.model.fate(followed)}`;
  }
}
