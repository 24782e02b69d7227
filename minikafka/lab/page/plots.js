"use strict";
/* Plots as SVG, told apart by dashes, markers and words as well as by colour. Each is a figure with
   a caption, a legend and its values as a table behind a click.

     Plots.lines(element, {caption, series: [{name, points: [[x, y], ...]}], x: AXIS, y: AXIS,
                           isStepped, marks: [{x, text}]})
     Plots.percentiles(element, {caption, series: [{name, values: [...]}], y: AXIS})
     Plots.bars(element, {caption, groups: [name, ...], series: [{name, values: [...]}], y: AXIS})

   AXIS is {label, unit, isLog}; a label and a unit are words. */

const Plots = (() => {
  const {html, svg} = Dom;
  const SIZE = {width: 640, height: 320, left: 62, right: 18, top: 16, bottom: 48};
  const STYLES = 6; // as many as lab.css has for .series-N
  const MARKERS = [
    "M-3.5-3.5h7v7h-7z", "M0-4.5L4.5 3.5h-9z", "M4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0z",
    "M0-5L5 0L0 5L-5 0z", "M-4-4L4 4M-4 4L4-4", "M0 4.5L4.5-3.5h-9z",
  ];

  /* --- scales --- */

  function ticks(low, high, wanted) {
    if (!(high > low)) return [low];
    const power = 10 ** Math.floor(Math.log10((high - low) / wanted));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => (high - low) / one <= wanted);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(i * step || 0);
    return found;
  }

  function linear(low, high, from, to) {
    const width = high - low || 1;
    const scale = (value) => from + ((value - low) / width) * (to - from);
    scale.ticks = (wanted) => ticks(low, high, wanted);
    return scale;
  }

  function logarithmic(low, high, from, to) {
    const first = Math.log10(low);
    const width = Math.log10(high) - first || 1;
    const scale = (value) => from + ((Math.log10(Math.max(value, low)) - first) / width) * (to - from);
    scale.ticks = () => {
      const found = [];
      const factors = width > 4 ? [1] : width > 2 ? [1, 3] : [1, 2, 5];
      for (let power = Math.floor(first); power <= first + width; power += 1) {
        for (const factor of factors) {
          const value = factor * 10 ** power;
          if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
        }
      }
      return found;
    };
    return scale;
  }

  const short = new Intl.NumberFormat("en", {maximumSignificantDigits: 3});
  const words = (value) => short.format(value);

  function scaleOf(axis, values, from, to) {
    if (!axis.isLog) return linear(Math.min(0, ...values), Math.max(...values, 0) * 1.05 || 1, from, to);
    const positive = values.filter((value) => value > 0);
    const least = positive.length ? Math.min(...positive) : 1;
    const most = positive.length ? Math.max(...positive) : 10;
    return logarithmic(least / 1.2, Math.max(most, least * 2) * 1.2, from, to);
  }

  /* --- frame: axes, legend, table --- */

  const extent = (series, at) => {
    let low = Infinity;
    let high = -Infinity;
    for (const one of series) {
      for (const point of one.points) { low = Math.min(low, point[at]); high = Math.max(high, point[at]); }
    }
    return low > high ? [0, 1] : [low, high];
  };

  const titled = (axis) => (axis.unit ? `${axis.label} (${axis.unit})` : axis.label);

  function frame(x, y, xScale, yScale, xTicks) {
    const bottom = SIZE.height - SIZE.bottom;
    const right = SIZE.width - SIZE.right;
    const group = svg("g", {class: "axes"});
    for (const value of yScale.ticks(5)) {
      const at = yScale(value);
      group.append(svg("path", {d: `M${SIZE.left} ${at}H${right}`}),
        svg("text", {x: SIZE.left - 8, y: at + 4, class: "end"}, words(value)));
    }
    for (const [value, text] of xTicks ?? xScale.ticks(8).map((one) => [one, words(one)])) {
      const at = xScale(value);
      group.append(svg("path", {class: "tick", d: `M${at} ${bottom}v5`}),
        svg("text", {x: at, y: bottom + 19, class: "mid"}, text));
    }
    group.append(
      svg("path", {class: "edge", d: `M${SIZE.left} ${SIZE.top}V${bottom}H${right}`}),
      svg("text", {x: (SIZE.left + right) / 2, y: SIZE.height - 8, class: "mid label"}, titled(x)),
      svg("text", {x: 0, y: 0, class: "mid label", transform: `translate(14 ${(SIZE.top + bottom) / 2}) rotate(-90)`},
        titled(y)));
    return group;
  }

  const marker = (number, x, y) => svg("path", {
    class: "marker", d: MARKERS[number % STYLES], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
  });

  function legend(series, isFilled) {
    return html("ul", {class: "plot-legend"}, series.map((one, number) => html("li", {},
      svg("svg", {width: 40, height: 14, "aria-hidden": "true", class: `series-${number % STYLES}`},
        isFilled
          ? svg("rect", {class: "bar", x: 12, y: 1, width: 16, height: 12})
          : [svg("path", {class: "line", d: "M1 7H39"}), marker(number, 20, 7)]),
      one.name)));
  }

  function table(head, rows) {
    const shown = rows.length > 200 ? rows.filter((_, i) => i % Math.ceil(rows.length / 200) === 0) : rows;
    return html("details", {class: "values"},
      html("summary", {}, shown.length < rows.length ? `Values as a table (${shown.length} of ${rows.length})` : "Values as a table"),
      html("div", {class: "scrolls"}, html("table", {},
        html("thead", {}, html("tr", {}, head.map((one) => html("th", {scope: "col"}, one)))),
        html("tbody", {}, shown.map((row) => html("tr", {}, row.map((one) => html("td", {},
          typeof one === "number" ? words(one) : one))))))));
  }

  function figure(element, plot, drawing, key, values) {
    element.replaceChildren(html("figure", {class: "plot"},
      html("figcaption", {}, plot.caption), key, drawing, values));
  }

  const canvas = (label) => svg("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": label, class: "drawing",
  });

  /* --- kinds of plots --- */

  /* At most about 1,200 points of a series are drawn: of each stretch its least and its greatest. */
  function thinned(points) {
    const width = Math.ceil(points.length / 600);
    if (width < 2) return points;
    const kept = [];
    for (let i = 0; i < points.length; i += width) {
      const stretch = points.slice(i, i + width);
      const least = stretch.reduce((a, b) => (b[1] < a[1] ? b : a));
      const most = stretch.reduce((a, b) => (b[1] > a[1] ? b : a));
      kept.push(...(least === most ? [least] : least[0] < most[0] ? [least, most] : [most, least]));
    }
    return kept;
  }

  function path(points, xScale, yScale, isStepped) {
    return points.map(([x, y], i) => {
      const u = xScale(x).toFixed(1);
      const v = yScale(y).toFixed(1);
      return i === 0 ? `M${u} ${v}` : isStepped ? `H${u}V${v}` : `L${u} ${v}`;
    }).join("");
  }

  function drawSeries(drawing, series, xScale, yScale, isStepped) {
    series.forEach((one, number) => {
      const points = thinned(one.points);
      const every = Math.max(1, Math.ceil(points.length / 8));
      const offset = Math.floor((every * number) / Math.max(1, series.length));
      drawing.append(svg("g", {class: `series-${number % STYLES}`},
        svg("title", {}, one.name),
        svg("path", {class: "line", d: path(points, xScale, yScale, isStepped)}),
        points.filter((_, i) => i % every === offset).map(([x, y]) => marker(number, xScale(x), yScale(y)))));
    });
  }

  function lines(element, plot) {
    const [xLow, xHigh] = extent(plot.series, 0);
    const xScale = plot.x.isLog ? logarithmic(xLow, xHigh, SIZE.left, SIZE.width - SIZE.right)
      : linear(xLow, xHigh, SIZE.left, SIZE.width - SIZE.right);
    const yScale = scaleOf(plot.y, extent(plot.series, 1), SIZE.height - SIZE.bottom, SIZE.top);
    const drawing = canvas(`${plot.caption}: ${titled(plot.y)} over ${titled(plot.x)}`);
    drawing.append(frame(plot.x, plot.y, xScale, yScale));
    for (const mark of plot.marks ?? []) {
      const at = xScale(mark.x);
      drawing.append(svg("g", {class: "event"},
        svg("path", {d: `M${at} ${SIZE.top}V${SIZE.height - SIZE.bottom}`}),
        svg("text", {x: at + 4, y: SIZE.top + 9}, mark.text)));
    }
    drawSeries(drawing, plot.series, xScale, yScale, plot.isStepped);
    const rows = plot.series.flatMap((one) => one.points.map(([x, y]) => [one.name, x, y]));
    figure(element, plot, drawing, legend(plot.series), table(["series", titled(plot.x), titled(plot.y)], rows));
  }

  const SHARES = [0, 0.5, 0.9, 0.99, 0.999, 0.9999];
  const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

  /* Latency by percentile, with the same room for each nine: 50, 90, 99, 99.9. */
  function percentiles(element, plot) {
    const series = plot.series.map((one) => ({...one, sorted: [...one.values].sort((a, b) => a - b)}));
    const most = Math.max(2, ...series.map((one) => one.sorted.length));
    const shares = SHARES.filter((share) => share === 0 || 1 - share >= 1 / most);
    const last = 1 / most;
    const drawn = series.filter((one) => one.sorted.length).map((one) => ({
      name: one.name,
      points: one.sorted.map((value, i) => [one.sorted.length / (one.sorted.length - i), value]),
    }));
    const xScale = logarithmic(1, 1 / last, SIZE.left, SIZE.width - SIZE.right);
    const yScale = scaleOf(plot.y, extent(drawn, 1), SIZE.height - SIZE.bottom, SIZE.top);
    const x = {label: "percentile", unit: "%"};
    const drawing = canvas(`${plot.caption}: ${titled(plot.y)} by percentile`);
    drawing.append(frame(x, plot.y, xScale, yScale, shares.map((share) => [1 / (1 - share), words4(share * 100)])));
    drawSeries(drawing, drawn, xScale, yScale, false);
    const head = ["series", "values", ...shares.map((share) => (share ? `p${words4(share * 100)}` : "least"))];
    const rows = series.map((one) => [one.name, one.sorted.length, ...shares.map((share) => quantile(one.sorted, share) ?? "")]);
    figure(element, plot, drawing, legend(series), table(head, rows));
  }

  const words4 = (value) => String(Number(value.toFixed(4)));

  function bars(element, plot) {
    const values = plot.series.flatMap((one) => one.values);
    const yScale = scaleOf(plot.y, values, SIZE.height - SIZE.bottom, SIZE.top);
    const right = SIZE.width - SIZE.right;
    const room = (right - SIZE.left) / plot.groups.length;
    const width = Math.min(46, (room * 0.8) / plot.series.length);
    const bottom = SIZE.height - SIZE.bottom;
    const middle = (group) => SIZE.left + room * (group + 0.5);
    const drawing = canvas(`${plot.caption}: ${titled(plot.y)} by ${plot.x.label}`);
    const xTicks = plot.groups.map((name, group) => [group, name]);
    drawing.append(frame(plot.x, plot.y, middle, yScale, xTicks));
    plot.series.forEach((one, number) => {
      const group = svg("g", {class: `series-${number % STYLES}`});
      one.values.forEach((value, i) => {
        const left = middle(i) + (number - plot.series.length / 2) * width;
        const top = value > 0 ? yScale(value) : bottom;
        group.append(
          svg("rect", {class: "bar", x: left + 1, y: top, width: width - 2, height: bottom - top}),
          svg("text", {class: "mid value", x: left + width / 2, y: top - 5}, words(value)));
      });
      drawing.append(group);
    });
    const rows = plot.series.map((one) => [one.name, ...one.values]);
    figure(element, plot, drawing, legend(plot.series, true), table(["series", ...plot.groups], rows));
  }

  return {lines, percentiles, bars};
})();
