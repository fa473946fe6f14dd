// The page of mfu-analyze --html: its style and its script. It loads nothing; every text from a
// trace comes in through textContent.
#ifndef MFU_PROFILER_ANALYSIS_PAGE_HH_
#define MFU_PROFILER_ANALYSIS_PAGE_HH_

namespace mfu {

inline constexpr char kPageHead[] = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mfu-analyze</title>
<style>
:root { --compute:#2f6fd0; --both:#8a63d2; --comm:#e4572e; --memory:#e3a008; --idle:#d5d9e0;
  --ink:#1c2330; --soft:#667085; --line:#e4e7ec; --paper:#ffffff; --back:#f5f6f8; --warn:#fff4d6; }
@media (prefers-color-scheme: dark) { :root { --idle:#3a4150; --ink:#e6e9ef; --soft:#98a2b3;
  --line:#333b49; --paper:#1b212c; --back:#12161d; --warn:#4a3a10; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--back); color:var(--ink);
  font:14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width:1180px; margin:0 auto; padding:20px; }
h1 { font-size:20px; margin:0 0 2px; }
h2 { font-size:15px; margin:0 0 10px; }
section { background:var(--paper); border:1px solid var(--line); border-radius:10px;
  padding:16px 18px; margin:14px 0; }
.soft { color:var(--soft); }
.note { background:var(--warn); border-radius:6px; padding:6px 10px; margin:6px 0; overflow-wrap:anywhere; }
.tiles { display:flex; flex-wrap:wrap; gap:10px; margin-top:12px; }
.tile { flex:1 1 130px; border-left:4px solid; padding:2px 10px; }
.tile b { display:block; font-size:22px; font-weight:600; }
.legend { display:flex; flex-wrap:wrap; gap:4px 16px; margin-bottom:8px; color:var(--soft); font-size:13px; }
.legend i { display:inline-block; width:11px; height:11px; border-radius:2px; margin-right:6px; }
.rank { display:grid; grid-template-columns:130px 1fr 90px; gap:10px; align-items:center; margin:3px 0; }
.rank > :first-child { text-align:right; overflow:hidden; text-overflow:ellipsis; white-space:nowrap; }
.rank > :last-child { font-variant-numeric:tabular-nums; color:var(--soft); }
.bar { display:flex; height:18px; border-radius:3px; overflow:hidden; background:var(--idle); }
.bar div { height:100%; min-width:0; color:#fff; font-size:11px; line-height:18px; text-align:center;
  overflow:hidden; }
svg { display:block; width:100%; height:26px; background:transparent; }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; }
th { text-align:right; font-weight:500; color:var(--soft); border-bottom:1px solid var(--line); padding:3px 8px; }
td { text-align:right; padding:3px 8px; border-bottom:1px solid var(--line); white-space:nowrap; }
th.left, td.left { text-align:left; }
td.name { white-space:normal; overflow-wrap:anywhere; text-align:left; font:12px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }
td.wide { width:34%; }
.axis { display:flex; justify-content:space-between; color:var(--soft); font-size:12px; }
#tip { position:fixed; pointer-events:none; display:none; background:var(--ink); color:var(--paper);
  border-radius:6px; padding:6px 10px; font-size:12px; max-width:440px; white-space:pre-line; z-index:9; }
</style></head><body><main id="page"></main><div id="tip"></div>
<script type="application/json" id="data">)html";

inline constexpr char kPageScript[] = R"html(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page"), tip = document.getElementById("tip");
const classes = [["compute", "compute", "--compute"], ["both", "compute over communication", "--both"],
  ["comm", "exposed communication", "--comm"], ["memory", "exposed copies", "--memory"],
  ["idle", "idle", "--idle"]];
const color = name => "var(" + name + ")";
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "style") made.style.cssText = value; else made.setAttribute(key, value);
  }
  for (const child of children) made.append(child);
  return made;
}
function time(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]]) {
    if (ns >= size * 0.9995) { const v = ns / size; return v.toFixed(v < 10 ? 3 : v < 100 ? 2 : 1) + " " + unit; }
  }
  return ns + " ns";
}
const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + "%" : "-";
function explain(element, text) {
  element.addEventListener("mousemove", event => {
    tip.textContent = typeof text === "function" ? text(event) : text;
    tip.style.display = "block";
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = left + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  element.addEventListener("mouseleave", () => { tip.style.display = "none"; });
}
function section(title, about) {
  const made = el("section", {}, el("h2", {}, title));
  if (about) made.append(el("p", { class: "soft", style: "margin:-6px 0 10px" }, about));
  page.append(made);
  return made;
}
function legend() {
  const made = el("div", { class: "legend" });
  for (const [, label, shade] of classes) {
    made.append(el("span", {}, el("i", { style: "background:" + color(shade) }), label));
  }
  return made;
}
const lines = (sums, whole) => classes.map(([key, label]) =>
  label + ": " + percent(sums[key], whole)).join("\n");
function bar(sums) {
  const made = el("div", { class: "bar" });
  for (const [key, , shade] of classes) {
    const share = sums.span > 0 ? 100 * sums[key] / sums.span : 0;
    if (share <= 0 || key === "idle") continue;
    made.append(el("div", { style: `width:${share}%;background:${color(shade)}` },
      share >= 5 ? share.toFixed(1) + "%" : ""));
  }
  explain(made, classes.map(([key, label]) =>
    `${label}: ${time(sums[key])} (${percent(sums[key], sums.span)})`).join("\n"));
  return made;
}
const named = label => /^[0-9]+$/.test(label) ? "rank " + label : label;
function rankLine(row, middle, right) {
  const label = el("div", {}, named(row.label));
  explain(label, `${row.file}\nGPU ${row.gpu}${row.name ? ": " + row.name : ""}\n` +
    `${row.kernels} kernels, ${row.copies} copies`);
  return el("div", { class: "rank" }, label, middle, el("div", {}, right));
}
// Stacked steps: for each class the area between what is below it and it.
function timeline(row) {
  const space = "http://www.w3.org/2000/svg", count = row.series.length;
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 1000 100");
  svg.setAttribute("preserveAspectRatio", "none");
  if (data.rows.length <= 4) svg.style.height = "72px";
  const from = row.from * 1000, width = (row.to - row.from) * 1000;
  const x = i => (from + width * i / count).toFixed(2);
  const back = document.createElementNS(space, "rect");
  for (const [key, value] of [["x", from], ["y", 0], ["width", Math.max(width, 0.5)], ["height", 100]]) back.setAttribute(key, value);
  back.style.fill = color("--idle");
  svg.append(back);
  const base = new Array(count).fill(0);
  classes.slice(0, 4).forEach(([, , shade], index) => {
    let up = "", down = "", any = false;
    row.series.forEach((slice, i) => {
      const low = base[i], high = low + slice[index];
      any = any || slice[index] > 0;
      up += `L${x(i)} ${(100 - high / 10).toFixed(1)}L${x(i + 1)} ${(100 - high / 10).toFixed(1)}`;
      down = `L${x(i + 1)} ${(100 - low / 10).toFixed(1)}L${x(i)} ${(100 - low / 10).toFixed(1)}` + down;
      base[i] = high;
    });
    if (!any) return;
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", "M" + (up + down).slice(1) + "Z");
    path.style.fill = color(shade);
    svg.append(path);
  });
  explain(svg, event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    const i = Math.floor((at - row.from) / (row.to - row.from) * count);
    if (!(i >= 0 && i < count)) return "not in this trace";
    const slice = row.series[i], span = row.sums.span;
    const all = slice.concat(1000 - slice[0] - slice[1] - slice[2] - slice[3]);
    return `${named(row.label)}: ${time(span * i / count)} to ${time(span * (i + 1) / count)} after its first operation\n` +
      classes.map(([, label], k) => `${label}: ${(all[k] / 10).toFixed(1)}%`).join("\n");
  });
  return svg;
}
function table(head, rows) {
  const made = el("table"), top = el("tr");
  head.forEach(([text, kind]) => top.append(el("th", { class: kind === "name" || kind === "left" ? "left" : "" }, text)));
  made.append(top);
  for (const cells of rows) {
    const line = el("tr");
    cells.forEach((cell, i) => line.append(el("td", { class: head[i][1] || "" }, cell)));
    made.append(line);
  }
  return made;
}
function meter(parts, whole) {
  const made = el("div", { class: "bar", style: "background:transparent" });
  for (const [value, shade, text] of parts) {
    const piece = el("div", { style: `width:${whole > 0 ? 100 * value / whole : 0}%;background:${color(shade)}` });
    explain(piece, text);
    made.append(piece);
  }
  return made;
}
const more = (rows, all) => rows < all ? el("p", { class: "soft" }, `${all - rows} more are in --json.`) : "";

page.append(el("h1", {}, "Where the GPU time went"),
  el("div", { class: "soft" }, data.title));
for (const note of data.notes) page.append(el("div", { class: "note" }, note));
if (data.rows.length > 0) {
  const total = data.total, sum = section("All GPUs together", `${time(total.span)} of GPU time in ${data.gpus} ` +
    (data.gpus === 1 ? "span" : "spans") + ", each from the first start to the last end on its GPU.");
  const tiles = el("div", { class: "tiles" });
  for (const [key, label, shade] of classes) {
    tiles.append(el("div", { class: "tile", style: "border-color:" + color(shade) },
      el("b", {}, percent(total[key], total.span)), el("span", { class: "soft" }, label)));
  }
  sum.append(bar(total), tiles);

  const ranks = section("By rank");
  ranks.append(legend());
  for (const row of data.rows) ranks.append(rankLine(row, bar(row.sums), time(row.sums.span)));
  ranks.append(more(data.rows.length, data.gpus));

  const when = section("Over time", data.aligned ?
    "On one clock: the ranks' own, as far as they agree. Each column is a slice of the GPU's span, filled by what ran." :
    "Each GPU from its own first start. Each column is a slice of its span, filled by what ran.");
  when.append(legend());
  for (const row of data.rows) when.append(rankLine(row, timeline(row), ""));
  when.append(rankLine({ label: "", file: "", gpu: "", kernels: "", copies: "" },
    el("div", { class: "axis" }, ...[0, 0.25, 0.5, 0.75, 1].map(f => el("span", {}, time(data.range * f)))), ""));
}
if (data.skew) {
  const skew = data.skew, widest = Math.max(...skew.ranks.map(r => r.wait), 1);
  const made = section("Stragglers", `${skew.aligned} collectives, each aligned over its ranks. The shortest instance bounds the ` +
    `transfer: ${time(skew.transfer)} in all. What a rank spends beyond that is waiting for the last one.`);
  if (skew.slowest) made.append(el("p", {}, el("b", {}, "Slowest: " + named(skew.slowest.label)), `, last at ${skew.slowest.last} of ` +
    `${skew.aligned} collectives; the others waited ${time(skew.slowest.caused)} for it, all ranks together.`));
  made.append(table([["rank", "left"], ["waiting", ""], ["", "wide"], ["came last", ""], ["others waited for it", ""]],
    skew.ranks.map(r => [named(r.label), time(r.wait), meter([[r.wait, "--comm", "waiting " + time(r.wait)]], widest),
      String(r.last), time(r.caused)])));
}
if (data.steps.length > 0) {
  const several = data.steps.some(s => s.files > 1);
  const made = section("Steps", "What was launched in each" + (several ? ", averaged over ranks." : "."));
  const head = [["step", "left"], ["GPU span", ""], ["", "wide"]];
  made.append(legend(), table(several ? head.concat([["ranks", ""], ["shortest", ""], ["longest", ""]]) : head,
    data.steps.map(s => [s.name, time(s.sums.span / s.files), bar(s.sums)].concat(
      several ? [String(s.files), time(s.shortest), time(s.longest)] : []))),
    more(data.steps.length, data.all_steps));
}
if (data.collectives.length > 0) {
  const whole = Math.max(...data.collectives.map(c => c.ns));
  section("Collectives").append(table([["collective", "left"], ["time", ""], ["", "wide"], ["calls", ""], ["mean", ""]],
    data.collectives.map(c => [c.name, time(c.ns), meter([[c.ns, "--comm", time(c.ns)]], whole), String(c.count), time(c.ns / c.count)])));
}
if (data.kernels.length > 0) {
  const widest = Math.max(...data.kernels.map(k => k.ns));
  section("Kernels by time", `${data.kernels.length} of ${data.kernel_names} names; sums of durations, concurrent ones counted twice.`)
    .append(table([["kernel", "name"], ["time", ""], ["", "wide"], ["share", ""], ["calls", ""], ["mean", ""], ["longest", ""]],
      data.kernels.map(k => [k.short + (k.kind ? "  [" + k.kind + "]" : ""), time(k.ns),
        meter([[k.ns, k.communication ? "--comm" : "--compute", k.name]], widest), percent(k.ns, data.kernel_ns),
        String(k.count), time(k.ns / k.count), time(k.longest)])));
}
page.append(el("p", { class: "soft" }, "mfu-analyze " + data.version));
</script></body></html>
)html";

}  // namespace mfu

#endif
