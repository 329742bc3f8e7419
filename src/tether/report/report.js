/* The moving parts of a report: dark mode, sorting, curves, the explorer. Needs uPlot, and no network. */
(() => {
  "use strict";
  const root = document.documentElement;
  const redraws = []; // called when the theme changes

  /** An element with attributes and children. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "style") element.style.cssText = value; // the page's policy forbids the attribute
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  // ---------------------------------------------------------------- dark and light

  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function remembered(value) {
    // A browser may forbid storage to files from disk.
    try {
      if (value === undefined) return localStorage.getItem("tether-theme");
      localStorage.setItem("tether-theme", value);
    } catch { /* then it is forgotten */ }
    return null;
  }

  function startTheme() {
    const before = remembered();
    if (before) root.dataset.theme = before;
    document.getElementById("theme").addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remembered(root.dataset.theme);
      redraws.forEach((redraw) => redraw());
    });
    prefersDark.addEventListener("change", () => redraws.forEach((redraw) => redraw()));
  }

  const ON_DARK = { "#000000": "#ffffff", "#777777": "#b0b5bb", "#0072B2": "#2f95dd" };
  const stroke = (hex) => (isDark() && ON_DARK[hex]) || hex;
  const faded = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");

  // ---------------------------------------------------------------- where the reader is

  function startContents() {
    const links = [...document.querySelectorAll(".bar a")];
    const targets = links.map((link) => document.getElementById(link.hash.slice(1)));
    const mark = () => {
      let here = 0;
      targets.forEach((target, k) => { if (target && target.getBoundingClientRect().top < 120) here = k; });
      links.forEach((link, k) => link.classList.toggle("here", k === here));
    };
    window.addEventListener("scroll", mark, { passive: true });
    mark();
  }

  // ---------------------------------------------------------------- tables

  /** The number a cell begins with: "1.2 ± 0.1" is 1.2, "> 99.9 %" is 99.9; null for words and dashes. */
  function numberIn(text) {
    const match = text.replace(/,/g, "").match(/^[<>≤≥]?\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?=$|[\s%/±])/i);
    return match ? Number(match[1]) : null;
  }

  function compare(one, other, direction) {
    const [a, b] = [numberIn(one), numberIn(other)];
    if (a !== null && b !== null) return direction * (a - b);
    if (a === null && b === null) return direction * one.localeCompare(other, undefined, { numeric: true });
    return a === null ? 1 : -1; // what was not measured stands last, whichever way
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const first = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const words = column > 0 && first.length > 0 && first.every((row) => row.cells[column].textContent.length > 24 && numberIn(row.cells[column].textContent) === null);
      if (words) [head, ...first.map((row) => row.cells[column])].forEach((cell) => cell.classList.add("words"));
      const button = make("button", { type: "button", title: "Sort", text: head.textContent });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
        const order = next === undefined ? "ascending" : next;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        if (order) head.setAttribute("aria-sort", order);
        const direction = order === "descending" ? -1 : 1;
        const text = (row) => row.cells[column].textContent.trim();
        const rows = order ? [...first].sort((a, b) => compare(text(a), text(b), direction)) : first;
        body.append(...rows);
      });
    });
  }

  // ---------------------------------------------------------------- numbers and axes

  const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  const raised = (power) => [...String(power)].map((c) => SUPER[c]).join("");

  /** Three digits, as the tables have it. */
  function short(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace("e+", "e");
    return String(Number(value.toPrecision(3)));
  }

  /** Three digits, rounded up: what is guaranteed is never shown smaller than it is. */
  function shortUp(value) {
    if (!(value > 0 && value < Infinity)) return value === 0 ? "0" : "–";
    const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
    return short(Math.ceil(value / unit - 1e-9) * unit);
  }

  function logLabel(value) {
    if (value === null) return "";
    const power = Math.log10(value);
    if (Math.abs(power - Math.round(power)) < 1e-6) return `10${raised(Math.round(power))}`;
    return value.toExponential(0).replace("e+", "e");
  }

  function stepLabel(value) {
    if (value === null) return "";
    return value >= 1000 ? `${Number((value / 1000).toPrecision(3))}k` : String(Number(value.toPrecision(3)));
  }

  /** Decades alone, or 1, 2 and 5 of each where the axis spans few of them; null hides a tick. */
  function logTicks(u, splits) {
    const shown = splits.filter((value) => value !== null && value > 0);
    const few = shown.length && Math.max(...shown) / Math.min(...shown) < 30;
    return splits.map((value) => {
      const lead = Number(value.toExponential(0).split("e")[0]), whole = Math.abs(value / 10 ** Math.floor(Math.log10(value) + 1e-9) - lead) < 1e-6;
      return whole && (lead === 1 || (few && (lead === 2 || lead === 5))) ? value : null;
    });
  }

  /** Labels for decades so far apart that they do not touch, counted from `origin`. */
  function labelled(room, origin = 1) {
    return (u, splits, axisIndex) => {
      const ticks = logTicks(u, splits), scale = axisIndex === 0 ? "x" : "y", size = axisIndex === 0 ? u.bbox.width : u.bbox.height;
      const { min, max } = u.scales[scale], decades = Math.log10(max / min);
      const every = Math.max(1, Math.ceil((decades * room) / (size / (window.devicePixelRatio || 1))));
      return ticks.map((value) => (value !== null && (every === 1 || Math.round(Math.log10(value / origin)) % every === 0) ? value : null));
    };
  }

  const padded = (share) => (u, low, high) => {
    if (low === null) return [1, 10];
    const room = (high / low) ** share;
    return high > low * 1.0001 ? [low / room, high * room] : [low / 2, high * 2];
  };

  const FONT = "12px system-ui, sans-serif";
  function axis(extra) {
    return { stroke: color("quiet"), font: FONT, labelFont: FONT, grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1, size: 5 }, ...extra };
  }

  /** 1 to 9 of every decade. uPlot's own never end where an axis begins just below a power of ten. */
  function logSplits(u, which, low, high) {
    const splits = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
      for (let lead = 1; lead <= 9; lead++) splits.push(Number(`${lead}e${power}`));
    }
    return splits.filter((value) => value >= low && value <= high);
  }

  function logAxis(extra) {
    const plain = axis(extra);
    return { ...plain, space: 1, splits: logSplits, grid: { ...plain.grid, filter: logTicks }, ticks: { ...plain.ticks, filter: logTicks } };
  }

  /** A box beside the pointer with what stands there; `rows(index)` gives a title and lines. */
  function tipPlugin(rows) {
    let box;
    return {
      hooks: {
        init: (u) => { box = make("div", { class: "tip", hidden: "" }); u.over.append(box); },
        setCursor: (u) => {
          const { idx, left, top } = u.cursor;
          const shown = idx !== null && idx !== undefined && left >= 0 && u.over.matches(":hover") ? rows(u, idx) : null;
          box.hidden = !shown || !shown.lines.length;
          if (box.hidden) return;
          box.replaceChildren(make("b", { text: shown.title }), ...shown.lines.map((line) =>
            make("span", {}, make("span", {}, make("i", { style: `background:${line.color}` }), line.name), make("span", { text: line.text }))));
          const right = left > u.over.clientWidth / 2;
          const place = right ? left - box.offsetWidth - 14 : left + 14;
          box.style.left = `${Math.max(Math.min(place, u.over.clientWidth - box.offsetWidth), -40)}px`;
          box.style.top = `${Math.max(0, Math.min(top - box.offsetHeight / 2, u.over.clientHeight - box.offsetHeight))}px`;
        },
      },
    };
  }

  function keepWidth(holder, chart) {
    let width = holder.clientWidth;
    new ResizeObserver(() => {
      if (holder.clientWidth === width || !holder.clientWidth) return;
      width = holder.clientWidth;
      chart().setSize({ width: innerWidth(holder), height: chart().height });
    }).observe(holder);
  }

  function innerWidth(holder) {
    const style = getComputedStyle(holder);
    return Math.max(200, holder.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  }

  // ---------------------------------------------------------------- curves

  const dashes = (method) => (method.dash.length ? method.dash.map((length) => length * 1.0) : undefined);

  function sample(method) {
    const drawn = (tag, attributes, ...children) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      element.append(...children);
      return element;
    };
    const look = { stroke: stroke(method.color), "stroke-width": Math.max(1.2, method.width), "stroke-opacity": method.alpha, "stroke-dasharray": method.dash.join(" ") };
    return drawn("svg", { viewBox: "0 0 28 10" }, drawn("line", { x1: 0, x2: 28, y1: 5, y2: 5, ...look }));
  }

  /** What a logarithmic axis takes for zero: a decade below everything that is not. */
  function floorOf(methods, key) {
    const values = methods.flatMap((m) => m.metrics[key].low || m.metrics[key].mean);
    const some = values.filter((value) => value > 1e-16);
    if (!some.length) return 1e-16;
    const least = 10 ** Math.floor(Math.log10(Math.min(...some)));
    return some.length < values.length ? least / 10 : least;
  }

  function curveTable(data, key, floor) {
    const steps = [...new Set(data.methods.flatMap((m) => m.steps))].sort((a, b) => a - b);
    const place = new Map(steps.map((step, k) => [step, k]));
    const spread = (steps_, values, clip) => {
      const row = new Array(steps.length).fill(null);
      steps_.forEach((step, k) => { row[place.get(step)] = clip ? Math.max(values[k], floor) : values[k]; });
      return row;
    };
    const columns = [steps], exact = [null];
    for (const method of data.methods) {
      const metric = method.metrics[key];
      for (const name of ["mean", "low", "high"]) {
        if (!metric[name]) continue;
        columns.push(spread(method.steps, metric[name], true));
        exact.push(name === "mean" ? spread(method.steps, metric.mean, false) : null);
      }
    }
    return { columns, exact };
  }

  function curveChart(holder, data, key, hidden, sync) {
    const floor = floorOf(data.methods, key);
    const { columns, exact } = curveTable(data, key, floor);
    const series = [{}], bands = [], owner = [null];
    data.methods.forEach((method) => {
      const paint = stroke(method.color), show = !hidden.has(method.name);
      const gaps = { spanGaps: true, points: { show: false }, show };
      // A training so short that it was looked at once has a point, and no line.
      const once = method.steps.length === 1 ? { points: { show: true, size: 7, fill: paint } } : {};
      series.push({ ...gaps, ...once, label: method.name, stroke: paint, width: method.width, alpha: method.alpha, dash: dashes(method) });
      owner.push(method);
      if (method.metrics[key].low) {
        for (const end of ["low", "high"]) { series.push({ ...gaps, label: `${method.name} ${end}`, stroke: "transparent", width: 0 }); owner.push(method); }
        bands.push({ series: [series.length - 1, series.length - 2], fill: faded(paint, 0.13) });
      }
    });
    const rows = (u, index) => ({
      title: `step ${columns[0][index].toLocaleString("en")}`,
      lines: owner.map((method, k) => ({ method, k })).filter(({ method, k }) => method && exact[k] && u.series[k].show && exact[k][index] !== null)
        .sort((a, b) => exact[b.k][index] - exact[a.k][index])
        .map(({ method, k }) => ({ name: method.name, color: stroke(method.color), text: short(exact[k][index]) })),
    });
    const floored = columns.slice(1).some((column, k) => exact[k + 1] && exact[k + 1].some((v, i) => v !== null && v < column[i]));
    const label = (value) => (floored && value && Math.abs(Math.log10(value / floor)) < 1e-6 ? `≤${logLabel(value)}` : logLabel(value));
    const chart = new uPlot({
      width: innerWidth(holder), height: 270, series, bands,
      legend: { show: false },
      cursor: { sync: { key: sync }, drag: { x: true, y: true, uni: 20 }, points: { size: 6 } },
      scales: { x: { time: false, distr: 3, range: padded(0) }, y: { distr: 3, range: padded(0.05) } },
      axes: [
        logAxis({ filter: labelled(45), values: (u, splits) => splits.map(stepLabel), label: "gradient steps", labelSize: 20, size: 30 }),
        logAxis({ filter: labelled(24, floor), values: (u, splits) => splits.map(label), size: 56 }),
      ],
      plugins: [tipPlugin(rows)],
    }, columns, holder);
    holder.chart = chart;
    holder.owner = owner;
    return chart;
  }

  function startCurves(place, data, number) {
    const hidden = new Set(), legend = make("div", { class: "legend", role: "group", "aria-label": "Methods" }), grid = make("div", { class: "charts" });
    place.append(legend, grid, make("p", { class: "note", text: data.seeds > 1 ? `Line: geometric mean of ${data.seeds} seeds; band: their range. Both axes are logarithmic; hover for exact values.` : "Both axes are logarithmic; hover for exact values." }));
    const holders = Object.entries(data.titles).map(([key, title]) => {
      const holder = make("div", { class: "chart", "data-metric": key }, make("h3", { text: title }));
      grid.append(holder);
      keepWidth(holder, () => holder.chart);
      return [holder, key];
    });
    const show = () => {
      for (const [holder] of holders) {
        holder.owner.forEach((method, k) => {
          if (method && holder.chart.series[k].show === hidden.has(method.name)) holder.chart.setSeries(k, { show: !hidden.has(method.name) });
        });
      }
      for (const button of legend.querySelectorAll("[data-method]")) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.method)));
    };
    const draw = () => {
      legend.replaceChildren(...data.methods.map((method) => {
        const button = make("button", { type: "button", "data-method": method.name, "aria-pressed": String(!hidden.has(method.name)), title: "Click: hide or show. Shift-click: this one alone" }, sample(method), method.name);
        button.addEventListener("click", (event) => {
          if (event.shiftKey) data.methods.forEach((m) => (m === method ? hidden.delete(m.name) : hidden.add(m.name)));
          else if (!hidden.delete(method.name)) hidden.add(method.name);
          show();
        });
        return button;
      }), make("button", { type: "button", text: "show all", onclick: () => { hidden.clear(); show(); } }));
      for (const [holder, key] of holders) {
        if (holder.chart) holder.chart.destroy();
        curveChart(holder, data, key, hidden, `curves-${number}`);
      }
    };
    draw();
    redraws.push(draw);
  }

  // ---------------------------------------------------------------- explorer: data

  function bytes(text, Type) {
    const raw = atob(text), buffer = new Uint8Array(raw.length);
    for (let k = 0; k < raw.length; k++) buffer[k] = raw.charCodeAt(k);
    return new Type(buffer.buffer);
  }

  /** Rows of numbers from their codes; NaN where there is none, and infinity. */
  function decoded(coded) {
    const [rows, columns] = coded.shape, codes = bytes(coded.codes, Int16Array);
    const low = bytes(coded.low, Float32Array), step = bytes(coded.step, Float32Array);
    const values = new Float64Array(rows * columns);
    for (let k = 0; k < values.length; k++) {
      const column = k % columns;
      const value = low[column] + (codes[k] + 32767) * step[column];
      values[k] = codes[k] === -32768 ? NaN : codes[k] === 32767 ? Infinity : value;
    }
    return { rows, columns, values, at: (row, column) => values[row * columns + column] };
  }

  /** Deltas from their logarithms; infinite where nothing is claimed. */
  function deltas(coded) {
    const delta = decoded(coded);
    for (let k = 0; k < delta.values.length; k++) delta.values[k] = Number.isNaN(delta.values[k]) ? 0 : Math.exp(delta.values[k]);
    return delta;
  }

  function cellsOf({ radii, memories, delta }) {
    const count = memories.shape[0];
    return { count, memories: decoded(memories), delta: deltas(delta), radii: radii.length === 1 ? new Float64Array(count).fill(radii[0]) : Float64Array.from(radii) };
  }

  /** Nearest memories on a grid of the slice, row by row as the lower envelope of parabolas. */
  function nearestOnSlice(cells, scaled, u, v, xs, ys) {
    const { rows, columns, values } = cells.memories;
    const base = new Float64Array(rows);
    for (let k = 0; k < rows; k++) {
      let sum = 0;
      for (let d = 0; d < columns; d++) if (d !== u && d !== v) { const gap = values[k * columns + d] - scaled[d]; sum += gap * gap; }
      base[k] = sum;
    }
    const order = Uint32Array.from({ length: rows }, (_, k) => k).sort((a, b) => values[a * columns + u] - values[b * columns + u]);
    const cell = new Int32Array(xs.length * ys.length), squared = new Float64Array(xs.length * ys.length);
    const stack = new Int32Array(rows), from = new Float64Array(rows), height = new Float64Array(rows);
    ys.forEach((y, row) => {
      let top = -1;
      for (const k of order) {
        const q = values[k * columns + u], gap = values[k * columns + v] - y;
        const c = base[k] + gap * gap;
        height[k] = c;
        let start = -Infinity, covered = false;
        while (top >= 0) {
          const other = stack[top], p = values[other * columns + u];
          if (q === p) {
            if (c >= height[other]) { covered = true; break; }
            top--;
            continue;
          }
          start = (c + q * q - height[other] - p * p) / (2 * (q - p));
          if (start > from[top]) break;
          top--;
          start = -Infinity;
        }
        if (covered) continue;
        top++;
        stack[top] = k;
        from[top] = top === 0 ? -Infinity : start;
      }
      let here = 0;
      xs.forEach((x, column) => {
        while (here < top && from[here + 1] <= x) here++;
        const k = stack[here], gap = values[k * columns + u] - x;
        cell[row * xs.length + column] = k;
        squared[row * xs.length + column] = height[k] + gap * gap;
      });
    });
    return { cell, squared };
  }

  // ---------------------------------------------------------------- explorer: drawing

  const RAMP = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]]; // cividis
  function ramp(share) {
    const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), k = Math.min(Math.floor(place), RAMP.length - 2), t = place - k;
    return RAMP[k].map((value, c) => value + t * (RAMP[k + 1][c] - value));
  }

  function niceTicks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const ticks = [];
    for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9 * step; t += step) ticks.push(Math.abs(t) < 1e-9 * step ? 0 : t);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const text = (t) => (digits > 5 || Math.abs(t) >= 1e6 ? t.toExponential(1) : t.toFixed(digits));
    return { ticks, text };
  }

  const CONTRAST = 1e3; // that colours tell apart: where M is followed exactly, delta is a rounding

  const EVIDENCE = { proved: "proved", lipschitz: "if the Lipschitz constants hold", statistical: "statistical", sampled: "an estimate, no guarantee" };

  class Explorer {
    constructor(place, data, number) {
      this.data = data;
      this.cells = data.cells && cellsOf(data.cells);
      this.maps = data.references.map((reference) => reference.deltas.map(deltas));
      this.rows = { data: decoded(data.data), probes: decoded(data.probes) };
      this.lines = data.references.map((reference) => decoded(reference.lines));
      this.lineCells = data.references.map((reference) => bytes(reference.cells, Int32Array));
      const [across, up = across] = data.start;
      this.state = { across, up, reference: 0, output: 0, along: across, extent: "near", mode: "relative", point: null };
      this.place = place;
      this.number = number;
      this.build();
      this.select();
      new ResizeObserver(() => this.drawSlice()).observe(this.canvas.parentElement || this.place);
      redraws.push(() => { this.drawSlice(); this.drawLine(); });
    }

    unit(name) { return this.data.units[name] ? `${name} [${this.data.units[name]}]` : name; }

    choice(label, key, names, changed) {
      const menu = make("select", { name: key, "data-choice": key });
      names.forEach(([value, text]) => menu.append(make("option", { value, text })));
      menu.value = this.state[key];
      menu.addEventListener("change", () => {
        this.state[key] = typeof this.state[key] === "number" ? Number(menu.value) : menu.value;
        changed(key);
      });
      return make("label", {}, label, menu);
    }

    build() {
      const { data } = this;
      const inputs = data.inputs.map((name, k) => [k, this.unit(name)]), outputs = data.outputs.map((name, k) => [k, this.unit(name)]);
      const references = data.references.map((reference, k) => [k, reference.label]);
      const changed = (key) => this.changed(key);
      this.canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": "Delta on the slice. Arrow keys move the marked point." });
      this.info = make("div", { class: `panel info${data.everywhere ? " alone" : ""}`, "aria-live": "polite" });
      this.fixed = make("details");
      this.keys = make("div", { class: "keys" });
      this.line = make("div", { class: "chart", "data-line": "" });
      this.lineKeys = make("div", { class: "keys" });
      const axes = this.axes.map((k) => inputs[k]);
      const slice = [
        ...(data.everywhere ? [] : [this.choice("across", "across", axes, changed)]),
        ...(axes.length > 1 ? [this.choice("up", "up", axes, changed)] : []),
        this.choice("through", "reference", references, changed),
        this.choice("output", "output", outputs, changed),
        ...(data.cells ? [this.choice("extent", "extent", [["near", "around the row"], ["all", "whole domain box"]], changed)] : []),
      ];
      const line = [
        this.choice("along", "along", inputs, changed),
        this.choice("shown", "mode", [["relative", "distance from M"], ["absolute", "values"]], changed),
      ];
      this.place.append(
        make("p", { text: this.introduction() }),
        make("p", { class: "note", text: `${data.name || "Model"}: ${data.kind} bounds, evidence: ${EVIDENCE[data.evidence] || data.evidence}. Drawn from numbers rounded to 16 bits; delta is rounded up.` }),
        make("div", { class: "controls" }, ...slice),
        data.everywhere ? this.info : make("div", { class: "slice" }, make("div", { class: "panel" }, this.canvas, this.keys, this.fixed), this.info),
        make("div", { class: "controls" }, ...line),
        make("div", { class: "panel line" }, this.line, this.lineKeys),
      );
      this.canvas.addEventListener("click", (event) => this.clicked(event));
      this.canvas.addEventListener("keydown", (event) => this.moved(event));
      keepWidth(this.line, () => this.line.chart);
    }

    /** What a slice is of. */
    introduction() {
      const { data, cells } = this;
      if (data.everywhere) return "M itself is a part of this model, and delta is the same at every input: a slice would have one colour, and is not shown.";
      if (cells) return `Every input belongs to the cell of its nearest memory; there are ${cells.count.toLocaleString("en")} of them. The slice is a flat cut through them: click a cell for its number and delta.`;
      const side = this.side, left = data.inputs.length - this.axes.length;
      return `The slice shows delta at ${side} × ${side} points; between them it may be another. Click for its value.` + (left ? ` For the sake of the page's size, slices are along the ${this.axes.length} inputs along which delta varies most; ${left} more are left out.` : "");
    }

    /** Inputs that a slice can be along. */
    get axes() {
      const { data } = this;
      if (data.everywhere) return [];
      return data.inputs.map((_, k) => k).filter((k) => data.cells || data.planes.some((plane) => plane.includes(k)));
    }

    /** Points along each side of a map. */
    get side() { return Math.round(Math.sqrt(this.maps[0][0].rows)); }

    changed(key) {
      const { state, axes } = this;
      if (["across", "up"].includes(key) && state.across === state.up && axes.length > 1) {
        // Two of the same make no plane: the other axis gives way.
        const other = key === "across" ? "up" : "across";
        state[other] = axes[(axes.indexOf(state[key]) + 1) % axes.length];
        this.place.querySelector(`[data-choice=${other}]`).value = state[other];
      }
      if (key === "across") { state.along = state.across; this.place.querySelector("[data-choice=along]").value = state.along; }
      if (["across", "up", "reference"].includes(key)) state.point = null;
      this.select();
    }

    get reference() { return this.data.references[this.state.reference]; }

    /** From where to where an input is shown. */
    span(input) {
      const { box, scale } = this.data;
      if (!this.cells) return this.reference.spans[input];
      const [low, high] = [box[0][input], box[1][input]];
      if (this.state.extent === "all") return [low - 0.03 * (high - low), high + 0.03 * (high - low)];
      const [from, to] = this.reference.spans[input], margin = 0.2 * (to - from) || scale[input];
      return [from - margin, to + margin];
    }

    select() {
      const { state, reference } = this;
      state.point ??= [reference.inputs[state.across], reference.inputs[state.up]];
      this.drawSlice();
      this.drawInfo();
      this.drawFixed();
      this.drawLine();
    }

    /** Part, scaled distance to its memory, and domain membership of the marked point. */
    located() {
      if (!this.cells) {
        const { part, inside } = this.mapped([this.state.point[0]], [this.state.point[1]]);
        return { part: part[0], inDomain: inside[0] };
      }
      const { state, data, cells } = this, { values, columns, rows } = cells.memories;
      const inputs = this.reference.inputs.slice();
      inputs[state.across] = state.point[0];
      if (columns > 1) inputs[state.up] = state.point[1];
      let best = Infinity, part = 0;
      for (let k = 0; k < rows; k++) {
        let sum = 0;
        for (let d = 0; d < columns && sum < best; d++) { const gap = values[k * columns + d] - inputs[d] / data.scale[d]; sum += gap * gap; }
        if (sum < best) { best = sum; part = k; }
      }
      const inBox = inputs.every((value, d) => value >= data.box[0][d] && value <= data.box[1][d]);
      return { part, distance: Math.sqrt(best), inDomain: inBox && Math.sqrt(best) <= cells.radii[part] };
    }

    /** The deltas of the parts of a slice: of all cells, or of the points of its map. */
    get delta() {
      const { data, state, cells } = this;
      if (cells) return cells.delta;
      const wanted = [state.across, state.up];
      return this.maps[state.reference][data.planes.findIndex((plane) => wanted.every((k) => plane.includes(k)))];
    }

    /** Logarithms of the smallest and the largest delta of the output that have a colour; whether there are smaller ones. */
    deltaRange() {
      const { rows, columns, values } = this.delta;
      let least = Infinity, most = -Infinity;
      for (let k = this.state.output; k < rows * columns; k += columns) {
        const log = Math.log(values[k]);
        if (Number.isFinite(log)) { least = Math.min(least, log); most = Math.max(most, log); }
      }
      if (most < least) return { least: 0, most: 0, cut: false };
      const floor = most - Math.log(CONTRAST);
      return { least: Math.max(least, floor), most, cut: least < floor };
    }

    drawSlice() {
      if (this.data.everywhere) return;
      const { canvas, state } = this;
      const width = canvas.parentElement.clientWidth - 24, height = Math.round(Math.min(430, Math.max(250, 0.68 * width)));
      if (width < 50) return;
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const area = (this.area = { left: 62, top: 8, width: width - 74, height: height - 56 });
      const [x0, x1] = this.span(state.across), [y0, y1] = this.span(state.up);
      this.window = { x0, x1, y0, y1 };
      const grain = 1.5, across = Math.max(2, Math.round(area.width / grain)), down = Math.max(2, Math.round(area.height / grain));
      const xs = Array.from({ length: across }, (_, k) => x0 + ((k + 0.5) / across) * (x1 - x0));
      const ys = Array.from({ length: down }, (_, k) => y1 - ((k + 0.5) / down) * (y1 - y0));
      const found = this.cells ? this.celled(xs, ys) : this.mapped(xs, ys);
      const sheet = make("canvas", { width: across, height: down });
      sheet.getContext("2d").putImageData(this.paint(found, xs.length, ys.length), 0, 0);
      pen.imageSmoothingEnabled = true;
      pen.drawImage(sheet, area.left, area.top, area.width, area.height);
      this.drawPoints(pen);
      this.drawAxes(pen);
      this.drawKeys(this.cells ? `${new Set(found.part).size} cells in view. ` : "", found.inside.includes(0));
    }

    /** Cells on a grid of the slice, and whether it is in the domain. */
    celled(xs, ys) {
      const { data, cells, state, reference } = this, u = state.across, v = data.inputs.length > 1 ? state.up : -1;
      const scaled = reference.inputs.map((value, d) => value / data.scale[d]), [low, high] = data.box;
      const { cell, squared } = nearestOnSlice(cells, scaled, u, v, xs.map((x) => x / data.scale[u]), ys.map((y) => (v < 0 ? 0 : y / data.scale[v])));
      const within = (value, d) => value >= low[d] && value <= high[d];
      const others = reference.inputs.every((value, d) => d === u || d === v || within(value, d));
      const inBoxX = xs.map((x) => within(x, u)), inside = new Uint8Array(cell.length);
      ys.forEach((y, row) => {
        const inBoxY = others && (v < 0 || within(y, v));
        inBoxX.forEach((inBox, column) => { const k = row * xs.length + column; inside[k] = inBox && inBoxY && squared[k] <= cells.radii[cell[k]] ** 2; });
      });
      return { part: cell, inside };
    }

    /** The nearest points of the map on a grid of the slice, and whether they are in the domain. */
    mapped(xs, ys) {
      const { state, side, delta, reference } = this, turned = state.across > state.up;
      const places = (values, input) => {
        const [from, to] = reference.spans[input];
        return values.map((value) => Math.min(side - 1, Math.max(0, Math.floor(((value - from) / (to - from)) * side))));
      };
      const columns = places(xs, state.across), rows = places(ys, state.up), part = new Int32Array(xs.length * ys.length), inside = new Uint8Array(part.length);
      rows.forEach((row, j) => columns.forEach((column, i) => {
        const k = j * xs.length + i;
        part[k] = turned ? column * side + row : row * side + column;
        inside[k] = delta.at(part[k], 0) < Infinity;
      }));
      return { part, inside };
    }

    paint({ part, inside }, width, height) {
      const { cells, delta, state } = this, { least, most } = this.deltaRange(), chosen = this.located().part;
      const picture = new ImageData(width, height), paints = new Map();
      for (let row = 0; row < height; row++) {
        for (let column = 0; column < width; column++) {
          const k = row * width + column, own = part[k];
          const edge = cells && ((column > 0 && part[k - 1] !== own) || (row > 0 && part[k - width] !== own));
          let paint;
          if (!inside[k]) {
            paint = (row + column) % 7 < 2 ? [138, 143, 150] : [185, 189, 195];
            if (edge) paint = [160, 165, 171];
          } else {
            if (!paints.has(own)) {
              const value = delta.at(own, state.output);
              paints.set(own, ramp(value > 0 ? (most > least ? (Math.log(value) - least) / (most - least) : 0.5) : 0));
            }
            paint = paints.get(own);
            if (edge) paint = paint.map((value) => value * 0.55);
          }
          if (edge && (own === chosen || part[k - 1] === chosen || part[k - width] === chosen)) paint = [213, 94, 0];
          picture.data.set([...paint, 255], 4 * k);
        }
      }
      return picture;
    }

    toPixels(x, y) {
      const { area, window: w } = this;
      return [area.left + ((x - w.x0) / (w.x1 - w.x0)) * area.width, area.top + ((w.y1 - y) / (w.y1 - w.y0)) * area.height];
    }

    drawPoints(pen) {
      const { area, rows, data, state } = this;
      const radius = data.reach, scaled = this.reference.inputs.map((value, d) => value / data.scale[d]);
      pen.save();
      pen.beginPath();
      pen.rect(area.left, area.top, area.width, area.height);
      pen.clip();
      this.near = { data: 0, probes: 0 };
      for (const [name, points] of Object.entries(rows)) {
        for (let k = 0; k < points.rows; k++) {
          let off = 0;
          for (let d = 0; d < points.columns; d++) if (d !== state.across && d !== state.up) off += (points.at(k, d) - scaled[d]) ** 2;
          if (off > radius * radius) continue;
          this.near[name]++;
          const [x, y] = this.toPixels(points.at(k, state.across) * data.scale[state.across], points.at(k, state.up) * data.scale[state.up]);
          this.drawMark(pen, name, x, y, 1 - 0.6 * (Math.sqrt(off) / radius));
        }
      }
      const [x, y] = this.toPixels(this.reference.inputs[state.across], this.reference.inputs[state.up]);
      pen.lineWidth = 3.5; pen.strokeStyle = "#fff"; this.cross(pen, x, y, 9);
      pen.lineWidth = 1.8; pen.strokeStyle = "#000"; this.cross(pen, x, y, 8);
      const [px, py] = this.toPixels(...state.point);
      for (const [paint, thick] of [["#fff", 4], ["#D55E00", 2]]) { pen.strokeStyle = paint; pen.lineWidth = thick; pen.beginPath(); pen.arc(px, py, 7, 0, 7); pen.stroke(); }
      pen.restore();
    }

    cross(pen, x, y, size) {
      pen.beginPath(); pen.moveTo(x - size, y); pen.lineTo(x + size, y); pen.moveTo(x, y - size); pen.lineTo(x, y + size); pen.stroke();
    }

    drawMark(pen, name, x, y, alpha) {
      pen.globalAlpha = alpha;
      pen.beginPath();
      if (name === "data") pen.arc(x, y, 3, 0, 7);
      else { pen.moveTo(x, y - 4.5); pen.lineTo(x + 4, y + 3); pen.lineTo(x - 4, y + 3); pen.closePath(); }
      pen.fillStyle = name === "data" ? "#ffffff" : "#E69F00";
      pen.fill();
      pen.lineWidth = 1; pen.strokeStyle = "#000"; pen.stroke();
      pen.globalAlpha = 1;
    }

    drawAxes(pen) {
      const { area, data, state, window: w } = this;
      pen.font = FONT; pen.fillStyle = color("quiet"); pen.strokeStyle = color("quiet"); pen.lineWidth = 1;
      pen.strokeRect(area.left + 0.5, area.top + 0.5, area.width - 1, area.height - 1);
      const horizontal = niceTicks(w.x0, w.x1, Math.max(3, area.width / 80)), vertical = niceTicks(w.y0, w.y1, Math.max(3, area.height / 55));
      pen.textAlign = "center"; pen.textBaseline = "top";
      for (const t of horizontal.ticks) {
        const [x] = this.toPixels(t, w.y0);
        pen.beginPath(); pen.moveTo(x, area.top + area.height); pen.lineTo(x, area.top + area.height + 4); pen.stroke();
        pen.fillText(horizontal.text(t), x, area.top + area.height + 7);
      }
      pen.fillStyle = color("ink");
      pen.fillText(this.unit(data.inputs[state.across]), area.left + area.width / 2, area.top + area.height + 28);
      if (data.inputs.length < 2) return;
      pen.fillStyle = color("quiet"); pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const t of vertical.ticks) {
        const [, y] = this.toPixels(w.x0, t);
        pen.beginPath(); pen.moveTo(area.left - 4, y); pen.lineTo(area.left, y); pen.stroke();
        pen.fillText(vertical.text(t), area.left - 7, y);
      }
      pen.save();
      pen.translate(11, area.top + area.height / 2); pen.rotate(-Math.PI / 2);
      pen.textAlign = "center"; pen.fillStyle = color("ink");
      pen.fillText(this.unit(data.inputs[state.up]), 0, 0);
      pen.restore();
    }

    drawKeys(seen, leaves) {
      const { data, state } = this, { least, most, cut } = this.deltaRange(), unit = data.units[data.outputs[state.output]] || "";
      const stops = RAMP.map((c) => `rgb(${c.join(",")})`).join(",");
      const near = `${this.near.data} held-out inputs (○) and ${this.near.probes} probes (△) lie ${this.cells ? "within the coverage radius of" : "near"} this slice`;
      this.keys.replaceChildren(
        make("span", {}, `delta of ${data.outputs[state.output]}: ${cut ? "≤ " : ""}${short(Math.exp(least))}`, make("i", { class: "ramp", style: `background:linear-gradient(90deg,${stops})` }), `${shortUp(Math.exp(most))} ${unit}`),
        ...(leaves ? [make("span", {}, make("i", { class: "hatch" }), "outside the domain: nothing is claimed")] : []),
        make("span", { text: "+ reference row" }),
        make("span", { text: `${seen}${near}.` }),
      );
    }

    drawFixed() {
      const { data, state, reference } = this;
      const names = data.inputs.map((name, d) => ({ name, d })).filter(({ d }) => d !== state.across && d !== state.up);
      this.fixed.hidden = !names.length;
      const open = this.fixed.open;
      this.fixed.replaceChildren(
        make("summary", { text: `Fixed on this slice: ${names.length} other input${names.length === 1 ? "" : "s"}, at ${reference.label}` }),
        make("span", { text: names.map(({ name, d }) => `${name} = ${short(reference.inputs[d])} ${data.units[name] || ""}`.trim()).join(", ") }),
      );
      this.fixed.open = open || names.length < 6;
    }

    drawInfo() {
      const { data, cells, state } = this, { part, distance, inDomain } = data.everywhere ? { inDomain: true } : this.located();
      const value = (p) => (data.everywhere ? data.everywhere[p] : this.delta.at(part, p));
      const here = [...new Set([state.across, state.up])].map((d, k) => `${data.inputs[d]} = ${short(state.point[k])} ${data.units[data.inputs[d]] || ""}`.trim()).join(", ");
      const title = data.everywhere ? "Everywhere" : cells ? `Cell ${part}` : "At the marked point";
      const domain = inDomain ? "in the domain." : "outside the domain, nothing is claimed there.";
      const note = data.everywhere ? "" : cells ? `Radius ${short(cells.radii[part])} (scaled); the marked point is ${short(distance)} from its memory: ${domain}` : `${here}: ${domain}`;
      const over = data.everywhere ? "" : cells ? " in the cell, at its rim, where it is largest" : ` at the nearest of ${this.side} × ${this.side} points`;
      if (cells) this.place.dataset.cell = part;
      this.place.dataset.delta = value(state.output);
      const rows = data.outputs.map((name, p) => make("tr", {}, make("td", { text: name }), make("td", { text: `${shortUp(value(p))} ${data.units[name] || ""}`.trim() })));
      const head = make("thead", {}, make("tr", {}, make("th", { text: "output" }), make("th", { text: cells ? "delta of the cell" : "delta" })));
      this.info.replaceChildren(
        make("h3", { text: title }),
        make("p", { class: "note", text: note }),
        make("table", {}, head, make("tbody", {}, ...rows)),
        make("p", { class: "note", text: `Distance to M of any output allowed${over} (${EVIDENCE[data.evidence] || data.evidence}).` }),
      );
    }

    clicked(event) {
      const box = this.canvas.getBoundingClientRect(), { area, window: w } = this;
      const x = (event.clientX - box.left - area.left) / area.width, y = (event.clientY - box.top - area.top) / area.height;
      if (x < 0 || x > 1 || y < 0 || y > 1) return;
      this.state.point = [w.x0 + x * (w.x1 - w.x0), w.y1 - y * (w.y1 - w.y0)];
      this.drawSlice();
      this.drawInfo();
    }

    moved(event) {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!move) return;
      event.preventDefault();
      const { x0, x1, y0, y1 } = this.window, [x, y] = this.state.point, clamp = (value, low, high) => Math.min(high, Math.max(low, value));
      this.state.point = [clamp(x + (move[0] * (x1 - x0)) / 40, x0, x1), clamp(y + (move[1] * (y1 - y0)) / 40, y0, y1)];
      this.drawSlice();
      this.drawInfo();
    }

    // ---- along a line

    lineTable() {
      const { data, state, reference } = this, coded = this.lines[state.reference];
      const [from, to] = reference.spans[state.along], count = coded.rows, first = (state.along * data.outputs.length + state.output) * 4;
      const xs = Array.from({ length: count }, (_, k) => from + (k / (count - 1)) * (to - from));
      const column = (which) => xs.map((_, k) => {
        const base = state.mode === "absolute" ? coded.at(k, first) : 0, value = which === 0 ? base : base + coded.at(k, first + which);
        return Number.isNaN(coded.at(k, first)) ? null : value;
      });
      return this.stepped([xs, column(2), column(3), column(0), column(1)]);
    }

    /** Puts the jump from one cell to the next half-way between their points: bounds do not ramp. */
    stepped(table) {
      const { state } = this, [xs] = table, first = state.along * xs.length, cell = this.lineCells[state.reference];
      const rows = [];
      xs.forEach((x, k) => {
        const row = table.map((column) => column[k]);
        rows.push(row);
        if (k + 1 === xs.length || cell[first + k] === cell[first + k + 1]) return;
        const next = table.map((column) => column[k + 1]), middle = (x + xs[k + 1]) / 2;
        if (row[3] === null || next[3] === null) return;
        rows.push([middle - 1e-6 * (xs[k + 1] - x), ...row.slice(1)], [middle, ...next.slice(1)]);
      });
      return table.map((_, c) => rows.map((row) => row[c]));
    }

    drawLine() {
      const { data, state, line } = this, table = this.lineTable(), output = data.outputs[state.output];
      if (line.chart) line.chart.destroy();
      const blue = stroke("#0072B2"), grey = color("ink"), edge = stroke("#0072B2");
      const names = ["", "lower limit", "upper limit", "M", "prediction"], paints = ["", edge, edge, grey, stroke("#D55E00")];
      const rows = (u, k) => ({
        title: `${data.inputs[state.along]} ${short(table[0][k])}`,
        lines: [2, 4, 3, 1].filter((s) => table[s][k] !== null).map((s) => ({ name: names[s], color: paints[s], text: short(table[s][k]) })),
      });
      const pad = (low, high) => {
        const room = 0.08 * (high - low) || Math.max(1e-9, 1e-3 * Math.abs(high));
        return [low - room, high + room];
      };
      const tick = (u, splits) => {
        const size = Math.max(...splits.map(Math.abs));
        return splits.map((value) => (value === 0 ? "0" : size < 1e-3 || size >= 1e6 ? value.toExponential(1) : String(Number(value.toPrecision(6)))));
      };
      line.chart = new uPlot({
        width: innerWidth(line), height: 300, legend: { show: false },
        cursor: { drag: { x: true, y: true, uni: 20 }, points: { size: 6 } },
        scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { range: (u, low, high) => (low === null ? [0, 1] : pad(low, high)) } },
        series: [{},
          { label: names[1], stroke: edge, width: 1, dash: [4, 3], points: { show: false } },
          { label: names[2], stroke: edge, width: 1, dash: [4, 3], points: { show: false } },
          { label: names[3], stroke: grey, width: 1.4, points: { show: false } },
          { label: names[4], stroke: paints[4], width: 2.4, points: { show: false } }],
        bands: [{ series: [2, 1], fill: faded(blue, 0.18) }],
        axes: [
          axis({ label: this.unit(data.inputs[state.along]), labelSize: 22, size: 34, space: 70, values: tick }),
          axis({ label: this.unit(output) + (state.mode === "relative" ? " less M" : ""), labelSize: 20, size: 66, values: tick }),
        ],
        plugins: [tipPlugin(rows), { hooks: { drawAxes: (u) => this.shade(u, table) } }],
      }, table, line);
      const key = (paint, text, style = "solid") => make("span", {}, make("i", { style: `width:1.5rem;border-top:2px ${style} ${paint}` }), text);
      this.lineKeys.replaceChildren(
        key(paints[4], "prediction"), key(grey, "trusted model M"), key(edge, "limits: no weights can leave them", "dashed"),
        ...(table[3].includes(null) ? [make("span", {}, make("i", { class: "hatch" }), "outside the domain")] : []),
        make("span", { text: `Along ${data.inputs[state.along]} through ${this.reference.label} (vertical line); all other inputs fixed there.` }),
      );
    }

    /** Greys what lies outside the domain, and marks the reference row. */
    shade(u, table) {
      const { ctx: pen, bbox } = u, xs = table[0], [from, to] = this.reference.spans[this.state.along];
      const half = (to - from) / (this.lines[this.state.reference].rows - 1) / 2;
      pen.save();
      pen.beginPath(); pen.rect(bbox.left, bbox.top, bbox.width, bbox.height); pen.clip();
      pen.fillStyle = isDark() ? "#8a8f9640" : "#8a8f9655";
      for (let k = 0; k < xs.length; k++) {
        if (table[3][k] !== null) continue;
        const left = u.valToPos(xs[k] - half, "x", true), right = u.valToPos(xs[k] + half, "x", true);
        pen.fillRect(left, bbox.top, right - left, bbox.height);
      }
      const here = u.valToPos(this.reference.inputs[this.state.along], "x", true);
      pen.strokeStyle = color("quiet"); pen.lineWidth = window.devicePixelRatio || 1; pen.setLineDash([2, 3]);
      pen.beginPath(); pen.moveTo(here, bbox.top); pen.lineTo(here, bbox.top + bbox.height); pen.stroke();
      pen.restore();
    }
  }

  // ---------------------------------------------------------------- start

  /** Fills each place when it comes near the window, so that a long report opens at once. */
  function startWhenNear(kind, start) {
    const places = [...document.querySelectorAll(`div.${kind}`)];
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watcher.unobserve(entry.target);
        const source = entry.target.nextElementSibling;
        start(entry.target, JSON.parse(source.textContent), source.id);
      }
    }, { rootMargin: "800px" });
    places.forEach((place) => watcher.observe(place));
  }

  startTheme();
  startContents();
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  startWhenNear("curves", startCurves);
  startWhenNear("explorer", (place, data, number) => new Explorer(place, data, number));
})();
