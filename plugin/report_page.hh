// The style of mfu-report --html. The page loads nothing and has no script.
#ifndef MFU_PLUGIN_REPORT_PAGE_HH_
#define MFU_PLUGIN_REPORT_PAGE_HH_

namespace mfu {

// default-src 'none': even a text that came in unescaped could neither run nor load anything.
inline constexpr char kPageHead[] = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mfu-report</title>
<style>
:root { color-scheme:light dark; --mfu:#2f6fd0; --comm:#e4572e; --idle:#8a63d2; --used:#2f9e6e;
  --wasted:#e3a008; --unknown:#c3c9d3; --ink:#1c2330; --soft:#667085; --line:#e4e7ec;
  --paper:#ffffff; --back:#f5f6f8; }
@media (prefers-color-scheme: dark) { :root { --mfu:#6fa3f5; --comm:#f08a6b; --idle:#b596ef;
  --used:#4cc38a; --wasted:#e8b93a; --unknown:#4a5264; --ink:#e6e9ef; --soft:#98a2b3;
  --line:#333b49; --paper:#1b212c; --back:#12161d; } }
* { box-sizing: border-box; }
body { margin:0; background:var(--back); color:var(--ink);
  font:14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width:1480px; margin:0 auto; padding:20px; }
h1 { font-size:20px; margin:0 0 2px; }
h2 { font-size:15px; margin:0 0 10px; }
section { background:var(--paper); border:1px solid var(--line); border-radius:10px;
  padding:16px 18px; margin:14px 0; }
.soft { color:var(--soft); }
p { margin:4px 0 8px; }
.tiles { display:flex; flex-wrap:wrap; gap:12px; }
.tile { flex:1 1 150px; border-left:4px solid var(--line); padding:2px 10px; }
.tile b { display:block; font-size:22px; font-weight:600; }
.tile span { display:block; color:var(--soft); font-size:13px; }
.legend { display:flex; flex-wrap:wrap; gap:4px 16px; margin-bottom:8px; color:var(--soft); font-size:13px; }
.legend i { display:inline-block; width:11px; height:11px; border-radius:2px; margin-right:6px; }
.plot { margin:0 0 12px 64px; }
.plot > svg { display:block; overflow:visible; }
svg text { fill:var(--soft); font-size:12px; }
.grid { stroke:var(--line); }
.scroll { overflow-x:auto; }
table { border-collapse:collapse; width:100%; font-size:13px; font-variant-numeric:tabular-nums; }
th { text-align:right; font-weight:500; color:var(--soft); border-bottom:1px solid var(--line); padding:3px 5px; white-space:nowrap; vertical-align:bottom; }
td { text-align:right; padding:3px 5px; border-bottom:1px solid var(--line); white-space:nowrap; }
th.left, td.left, td.why { text-align:left; padding-left:9px; }
td.left { max-width:16em; overflow:hidden; text-overflow:ellipsis; }
td.why { min-width:11em; white-space:normal; overflow-wrap:anywhere; }
th.bar { width:9%; min-width:84px; white-space:normal; }
.split { display:flex; height:12px; border-radius:3px; overflow:hidden; background:var(--line); }
dt { float:left; clear:left; width:110px; font-weight:500; }
dd { margin:0 0 4px 120px; color:var(--soft); }
.mfu { background:var(--mfu); stroke:var(--mfu); } .comm { background:var(--comm); stroke:var(--comm); }
.idle { background:var(--idle); stroke:var(--idle); }
.used { background:var(--used); fill:var(--used); } .wasted { background:var(--wasted); fill:var(--wasted); }
.unknown { background:var(--unknown); fill:var(--unknown); }
polyline { fill:none !important; stroke-width:2; vector-effect:non-scaling-stroke; }
circle { fill:var(--paper); stroke-width:2; }
circle.mfu.full { fill:var(--mfu); } circle.comm.full { fill:var(--comm); } circle.idle.full { fill:var(--idle); }
@media (max-width: 760px) { main { padding:8px; } section { padding:10px; } .second { display:none; }
  td.left { max-width:7em; } th.bar { min-width:60px; } }
</style></head><body><main>
)html";

inline constexpr char kPageEnd[] = "</main></body></html>\n";

}  // namespace mfu

#endif
