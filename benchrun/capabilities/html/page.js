// Makes the page one to sort, filter, hover and compare. Everything it shows stands in the page: tables, sections, #data.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const table = document.getElementById("all");
const head = [...table.tHead.rows[0].cells];
const titles = head.map(cell => cell.firstChild.textContent);
const column = name => titles.indexOf(name);
const charts = new Set();

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const rows = [...table.tBodies[0].rows].map(row => {
  const link = row.cells[0].firstChild;
  const text = name => row.cells[column(name)]?.textContent ?? "";
  const number = Number(link.hash.slice(2));
  const section = document.getElementById("s" + number);
  return {row, link, number, section, text, name: link.textContent, verdict: text("verdict"), day: text("launched"),
    words: `${row.textContent} ${data[number].id} ${row.querySelector("[data-nodes]")?.dataset.nodes ?? ""}`.toLowerCase()};
});
const runOf = number => rows.find(run => run.number === number);

// -- the state, which the address keeps ----------------------------------------------------------------

const EMPTY = {q: "", verdict: "", from: "", to: "", sort: "", open: "", compare: "", over: ""};
let state = {...EMPTY};

function readAddress() {
  const hash = location.hash;
  if (/^#[a-qs-z]/.test(hash) || hash === "#runs") return; // a section: the runs stay as they are
  state = {...EMPTY};
  if (/^#r\d+$/.test(hash)) state.open = hash.slice(2);
  if (hash.startsWith("#?"))
    for (const [name, value] of new URLSearchParams(hash.slice(2))) if (name in EMPTY) state[name] = value;
}

function change(changes, keep = false) {
  Object.assign(state, changes);
  const stated = Object.entries(state).filter(([, value]) => value);
  const address = stated.length ? "#?" + new URLSearchParams(stated) : location.pathname + location.search;
  history[keep ? "pushState" : "replaceState"](null, "", address);
  show();
}

// -- controls ------------------------------------------------------------------------------------------

const tools = element("form", {id: "tools", role: "search", ariaLabel: "Filter of the runs"});
const field = (label, input) => (tools.append(element("label", {}, label, input)), input);
const q = field("words, e.g. llama fp8 node12", element("input", {type: "search", size: 26}));
const verdict = field("verdict", element("select", {}, element("option", {value: "", textContent: "any"})));
for (const name of [...new Set(rows.map(run => run.verdict))].sort()) verdict.append(element("option", {textContent: name}));
const from = field("launched from", element("input", {type: "date"}));
const to = field("to", element("input", {type: "date"}));
const reset = element("button", {type: "button", textContent: "Reset"});
const compare = element("button", {type: "button", textContent: "Compare two"});
const count = element("span", {role: "status"});
tools.append(reset, compare, count);
table.before(tools);
tools.addEventListener("submit", event => event.preventDefault());
for (const [name, input] of Object.entries({q, verdict, from, to}))
  input.addEventListener("input", () => change({[name]: input.value}));
reset.addEventListener("click", () => {
  for (const box of table.querySelectorAll("input:checked")) box.checked = false;
  change(EMPTY);
});

head.forEach((cell, index) => {
  const button = element("button", {type: "button", textContent: titles[index]});
  cell.firstChild.replaceWith(button);
  button.addEventListener("click", () => change({sort: state.sort === `${index}` ? `-${index}` : `${index}`}));
});
table.classList.add("sortable");

for (const run of rows) {
  const box = element("input", {type: "checkbox", ariaLabel: "compare " + run.name});
  run.link.before(box);
  box.addEventListener("change", showCompare);
}
const ticked = () => rows.filter(run => run.row.querySelector("input").checked);
function showCompare() {
  const number = ticked().length;
  compare.disabled = number !== 2;
  compare.title = number === 2 ? "" : `tick two runs: ${number} are`;
}
compare.addEventListener("click", () => change({compare: ticked().map(run => run.number).join(",")}, true));
table.addEventListener("click", event => {
  if (event.target.localName !== "a") return;
  event.preventDefault();
  change({open: event.target.hash.slice(2)}, true);
});

// -- the table -----------------------------------------------------------------------------------------

function fits(run) {
  if (state.verdict && run.verdict !== state.verdict) return false;
  if (state.from && !(run.day >= state.from)) return false;
  if (state.to && !(run.day && run.day <= state.to)) return false;
  return state.q.toLowerCase().split(/\s+/).every(word => run.words.includes(word));
}

const numberOf = text => /^[-+]?[\d.,]+/.test(text) ? parseFloat(text.replaceAll(",", "")) : NaN;

function sorted(list) {
  if (!state.sort) return list;
  const place = Math.abs(Number(state.sort)), sign = state.sort.startsWith("-") ? -1 : 1;
  const named = titles[place] === "speed" ? column("ratio") : place;
  const dates = titles[place] === "launched";
  return [...list].sort((one, other) => {
    const a = one.row.cells[named].textContent, b = other.row.cells[named].textContent;
    if (!a || !b) return !a - !b; // what was not measured stands last
    const difference = dates ? 0 : numberOf(a) - numberOf(b);
    return sign * (difference || a.localeCompare(b));
  });
}

function show() {
  Object.assign(q, {value: state.q}), Object.assign(from, {value: state.from}), Object.assign(to, {value: state.to});
  verdict.value = state.verdict;
  const shown = sorted(rows.filter(fits)), inside = new Set(shown);
  for (const run of rows) run.row.hidden = run.section.hidden = !inside.has(run);
  const others = rows.filter(run => !inside.has(run));
  table.tBodies[0].append(...shown.map(run => run.row), ...others.map(run => run.row));
  document.getElementById("each").append(...shown.map(run => run.section));
  count.textContent = `${shown.length} of ${rows.length} runs`;
  head.forEach((cell, index) => {
    const now = state.sort && Math.abs(Number(state.sort)) === index;
    if (now) cell.ariaSort = state.sort.startsWith("-") ? "descending" : "ascending";
    else cell.removeAttribute("aria-sort");
  });
  showCompare();
  showOver(shown);
  showDialog();
}

// -- plots, drawn by uPlot -----------------------------------------------------------------------------

const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(chart => chart.redraw()));

// Midnight as a date, any other time as one of the day, in UTC.
function dated(seconds) {
  const text = new Date(1000 * seconds).toISOString();
  return seconds % 86400 ? text.slice(11, 16) : text.slice(0, 10);
}

// Ends of a time axis with room for the dots, also where all are of one moment.
function apart(chart, low, high) {
  const x = chart.data[0], least = 0.02 * (high - low);
  return x[0] === x.at(-1) ? [x[0] - 3600, x[0] + 3600] : [low - least, high + least];
}

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5];

function decoded([unit, ...steps]) {
  let sum = 0;
  return steps.map(step => (sum += step) * unit);
}

// A plot in `parent`; series: [name, y, options]; `say` gives the sentence below it for the place that is hovered.
function draw(parent, label, x, series, {axes, ends, level, from, time = false, say}) {
  const below = element("p", {textContent: say(null)});
  const figure = element("div", {className: "chart"});
  const canvas = element("div", {role: "img", ariaLabel: label});
  figure.append(canvas, below);
  parent.append(figure);
  const axis = {stroke: () => colour("ink"), grid: {stroke: () => colour("line"), width: 1}, ticks: {show: false}};
  const chart = new uPlot({
    width: Math.max(260, parent.clientWidth), height: 220, legend: {show: false},
    tzDate: seconds => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
    cursor: {drag: {x: true, y: true}}, scales: {x: {time, ...(time && {range: apart})}, y: ends ? {range: () => ends} : {}},
    axes: [{...axis, label: axes[0], labelSize: 22, size: 32, 
      ...(time && {values: (_, ticks) => ticks.map(dated), space: 90}), ...(axes[0] === "step" && {incrs: WHOLE})},
      {...axis, label: axes[1], labelSize: 22, size: 62}],
    series: [{}, ...series.map(([name, , options], index) => ({label: name, width: 1.5,
      stroke: () => colour("c" + index % 6), ...options}))],
    hooks: {
      setCursor: [plot => { below.textContent = say(plot.cursor.idx) }],
      drawAxes: [plot => {
        const {left, top, width, height} = plot.bbox, context = plot.ctx;
        if (from !== undefined) {
          const edge = Math.min(Math.max(plot.valToPos(from, "x", true), left), left + width);
          context.fillStyle = colour("shade");
          context.fillRect(left, top, edge - left, height);
        }
        if (level) {
          const y = plot.valToPos(level, "y", true);
          context.strokeStyle = colour("soft");
          context.setLineDash([4, 4]);
          context.beginPath(), context.moveTo(left, y), context.lineTo(left + width, y), context.stroke();
          context.setLineDash([]);
        }
      }],
    },
  }, [x, ...series.map(([, y]) => y)], canvas);
  charts.add(chart);
  return chart;
}

function room([low, high]) {
  const least = Math.max(0.1 * (high - low), 0.004 * high);
  return [low - least, high + least];
}

// The series of several charts over one x: a value where a chart has that x, else undefined, which a line passes over.
function joined(parts) {
  const all = parts.map(([, x, y]) => [decoded(x), decoded(y)]);
  const x = [...new Set(all.flatMap(([each]) => each))].sort((a, b) => a - b);
  const values = all.map(([own, y]) => {
    const known = new Map(own.map((each, index) => [each, y[index]]));
    return x.map(each => known.get(each));
  });
  return [x, values];
}

function drawChart(parent, title, parts, chart, ends) {
  const [x, values] = joined(parts);
  const short = value => value === undefined ? "" : Number(value.toPrecision(5));
  const series = parts.map(([name], index) => [name, values[index], {spanGaps: true}]);
  const counted = chart.from === undefined ? "" : "Grey: warm-up, not counted. Dashed: median. ";
  const names = parts.length > 1 ? parts.map(([name], index) => `${"blue orange green violet red grey".split(" ")[index % 6]}: ${name}`).join("; ") + ". " : "";
  const say = at => at === null || at === undefined ? counted + names + "Drag to zoom, double-click to see all."
    : `${chart.x.replace(/ \(.*/, "")} ${short(x[at])}: ` + parts.map(([name], index) => [name, values[index][at]])
      .filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${short(value)}`).join(", ");
  draw(parent, title, x, series, {axes: [chart.x, chart.y], ends: ends && room(ends), level: chart.level, from: chart.from, say});
}

// -- all runs over time --------------------------------------------------------------------------------

const COLOURS = {good: "good", bad: "bad", look: "look", none: "soft"};
const choices = ["ratio", "step time s", "tokens/s/GPU", "MFU"].filter(name => column(name) >= 0);
const over = element("section", {id: "over", hidden: true});
const value = element("select", {}, ...choices.map(name => element("option", {textContent: name})));
const plotted = element("div");
over.append(element("h2", {textContent: "Over time"}), element("label", {className: "soft"}, "value ", value), plotted);
document.getElementById("runs").append(over);
value.addEventListener("input", () => change({over: value.value === choices[0] ? "" : value.value}));
const timeOf = run => {
  const stamp = /-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(data[run.number].id);
  return (stamp ? Date.UTC(stamp[1], stamp[2] - 1, ...stamp.slice(3)) : Date.parse(run.day)) / 1000;
};
let drawnOver = "";

function showOver(shown) {
  const days = new Set(rows.map(run => run.day).filter(Boolean));
  over.hidden = days.size < 2 || !choices.length;
  if (over.hidden) return;
  value.value = state.over || choices[0];
  const list = shown.map(run => ({run, time: timeOf(run), y: numberOf(run.text(value.value))}))
    .filter(each => each.time && !isNaN(each.y)).sort((a, b) => a.time - b.time);
  const key = value.value + list.map(each => each.run.number);
  if (key === drawnOver) return;
  drawnOver = key;
  plotted.replaceChildren();
  if (!list.length) return void plotted.append("no run that is shown has this value");
  const kind = each => each.run.row.cells[column("verdict")].firstChild.className;
  const series = Object.entries(COLOURS).map(([name, shade]) => [name, list.map(each => kind(each) === name ? each.y : null),
    {paths: () => null, stroke: () => colour(shade), points: {show: true, size: 7, fill: () => colour(shade)}}]);
  const say = at => {
    if (at === null || at === undefined || !list[at]) return "Each dot is a run, in the colour of its verdict; a click opens it. Drag to zoom, double-click to see all.";
    return `${list[at].run.name}: ${value.value} ${list[at].run.text(value.value)}, ${list[at].run.verdict}, ${list[at].run.day}. ${sourceOf(list[at].run)}`;
  };
  const chart = draw(plotted, `${value.value} of the runs over the time of their launch`, list.map(each => each.time), series,
    {axes: ["launched (UTC)", value.value], level: value.value === "ratio" ? 1 : undefined, time: true, say});
  let pressed = 0;
  chart.over.addEventListener("mousedown", event => { pressed = event.clientX });
  chart.over.addEventListener("mouseup", event => {
    const at = chart.cursor.idx;
    if (Math.abs(event.clientX - pressed) < 3 && list[at]) change({open: `${list[at].run.number}`}, true);
  });
}

// -- what a run was compared with, beside the pointer --------------------------------------------------

const tip = element("div", {id: "tip", role: "tooltip", hidden: true});
document.body.append(tip);
function sourceOf(run) {
  const reason = run.section.querySelector("p").textContent;
  if (!run.text("ratio")) return reason;
  return `${run.text("ratio")} (${run.text("interval")}) of ${factsOf(run.section).get("source") ?? run.text("against")}. ${reason}`;
}
function showTip(event) {
  const row = event.target.closest("tbody tr");
  if (!row || event.target.localName === "input") return void (tip.hidden = true);
  tip.textContent = sourceOf(rows.find(run => run.row === row));
  tip.hidden = false;
  const place = row.getBoundingClientRect();
  const [x, y] = event.clientX === undefined ? [place.left + 40, place.bottom] : [event.clientX, event.clientY + 18];
  tip.style.left = Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (y + tip.offsetHeight > innerHeight ? Math.max(4, y - tip.offsetHeight - 30) : y) + "px";
}
table.addEventListener("mousemove", showTip);
table.addEventListener("focusin", showTip);
for (const name of ["mouseleave", "focusout"]) table.addEventListener(name, () => { tip.hidden = true });
addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true });

// -- one run, and two beside each other ----------------------------------------------------------------

const dialog = element("dialog", {id: "panel"});
document.body.append(dialog);
dialog.addEventListener("close", () => { if (state.open || state.compare) change({open: "", compare: ""}) });

function showDialog() {
  const wanted = (state.compare || state.open).split(",").map(Number).map(runOf).filter(Boolean);
  const comparing = Boolean(state.compare) && wanted.length === 2;
  if (!(comparing || state.open && wanted.length)) return void (dialog.open && dialog.close());
  const key = `${state.compare}|${state.open}`;
  if (dialog.open && dialog.dataset.key === key) return;
  dialog.dataset.key = key;
  const close = element("button", {type: "button", className: "close", textContent: "Close"});
  close.addEventListener("click", () => dialog.close());
  const body = element("div");
  dialog.replaceChildren(close, body);
  if (!dialog.open) dialog.showModal();
  if (comparing) compared(body, ...wanted);
  else opened(body, wanted[0]);
  dialog.ariaLabel = body.querySelector("h2").textContent;
}

function opened(body, run) {
  const copy = run.section.cloneNode(true);
  for (const each of copy.querySelectorAll("[id]")) each.removeAttribute("id");
  const summary = copy.querySelector("summary");
  body.append(element("h2", {}, run.name + " ", summary.querySelector("span").cloneNode(true)), summary.querySelector("small"));
  summary.remove();
  const place = element("div");
  body.append(copy.querySelector("p"), place);
  body.append(...copy.childNodes);
  for (const chart of data[run.number].charts) {
    const parent = chart.x === "step" ? place : body; // the state of the GPUs stands below all else
    parent.append(element("h3", {textContent: chart.x === "step" ? "Step time" : "GPUs: " + chart.y}));
    drawChart(parent, `${chart.y} of ${run.name}`, chart.series, chart, chart.ends);
  }
}

const factsOf = part => new Map([...part.querySelectorAll("dt")].map(name => [name.textContent, name.nextSibling.textContent]));
const partsOf = part => new Map([...part.querySelectorAll(".fall tbody tr")].map(row => [row.cells[0].textContent, Number(row.cells[1].textContent)]));

// Time of the second for the same tokens over that of the first, with its interval; null without steps.
function ratioOf(one, other) {
  const a = data[one.number].step, b = data[other.number].step;
  if (!a || !b) return null;
  const rates = [one, other].map(run => numberOf(run.text("tokens/s/GPU")));
  const value = rates.every(rate => rate > 0) ? rates[0] / rates[1] : b[0] / a[0];
  return {value, low: value * b[1] / b[0] * a[0] / a[2], high: value * b[2] / b[0] * a[0] / a[1]};
}

function grid(titles, lines, numbers = "") {
  const row = (kind, texts) => element("tr", {}, ...texts.map((text, index) => element(kind, {textContent: text, className: index ? numbers : ""})));
  const made = element("table", {}, element("thead", {}, row("th", titles)), element("tbody", {}, ...lines.map(line => row("td", line))));
  return element("div", {className: "scroll", tabIndex: 0, role: "group", ariaLabel: titles[0]}, made);
}

const NOTICEABLE = 0.02; // repeats of a run differ by as much

function compared(body, one, other) {
  body.append(element("h2", {textContent: "Two runs side by side"}));
  const [work, another] = [one, other].map(run => run.name.split(",")[0]);
  const ratio = work === another ? ratioOf(one, other) : null;
  if (work !== another) body.append(element("p", {textContent: `${work} and ${another} are different work: their steps have no ratio.`}));
  if (ratio) {
    const real = ratio.low > 1 || ratio.high < 1, large = Math.abs(ratio.value - 1) >= NOTICEABLE;
    const answer = !real ? "The interval holds 1: the steps show no difference."
      : large ? "The interval does not hold 1, and repeats of a run differ by less: the difference is real."
        : "The interval does not hold 1, but repeats of a run differ by up to 2 %: other runs may not show it.";
    body.append(element("p", {textContent: `For the same tokens B takes ${ratio.value.toFixed(3)} times as long as A (${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}). ${answer}`}));
  }
  const [a, b] = [one, other].map(run => data[run.number].charts[0]);
  if (a && b && a.x === "step" && b.x === "step") {
    const ends = [Math.min(a.ends[0], b.ends[0]), Math.max(a.ends[1], b.ends[1])];
    drawChart(body, "step times of both runs", [["A", ...a.series[0].slice(1)], ["B", ...b.series[0].slice(1)]], {x: a.x, y: a.y}, ends);
  }
  const cells = titles.map((title, index) => [title, one.row.cells[index].textContent, other.row.cells[index].textContent]);
  const lines = [["run", one.name, other.name], ["id", data[one.number].id, data[other.number].id]];
  body.append(grid(["of the run", "A", "B"], [...lines, ...cells.slice(1).filter(line => line[0] !== "speed" && (line[1] || line[2]))]));
  const [first, second] = [one, other].map(run => partsOf(run.section));
  const parts = [...new Set([...first.keys(), ...second.keys()])].map(name => [name, first.get(name), second.get(name)])
    .map(([name, x, y]) => [name, x ?? "", y ?? "", x === undefined || y === undefined ? "" : y - x])
    .sort((x, y) => Math.abs(y[3]) - Math.abs(x[3]))
    .map(([name, x, y, more]) => [name, `${x}`, `${y}`, more === "" ? "" : (more < 0 ? "" : "+") + Number(more.toPrecision(4))]);
  if (parts.length) body.append(element("h3", {textContent: "Where the seconds went"}), grid(["part", "A s", "B s", "B - A s"], parts, "n"));
  const [own, its] = [one, other].map(run => factsOf(run.section));
  const differing = [...new Set([...own.keys(), ...its.keys()])].filter(name => name && own.get(name) !== its.get(name));
  body.append(element("h3", {textContent: "What differs"}), grid(["fact", "A", "B"], differing.map(name => [name, own.get(name) ?? "", its.get(name) ?? ""])));
}

// -- begin ---------------------------------------------------------------------------------------------

for (const name of ["popstate", "hashchange"]) addEventListener(name, () => { readAddress(); show() });
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const chart of charts) {
    if (!chart.root.isConnected) charts.delete(chart);
    else chart.setSize({width: Math.max(260, chart.root.closest(".chart").parentElement.clientWidth), height: 220});
  }
});
readAddress();
show();
