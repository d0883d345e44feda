"""How pages look: one style sheet for wide and narrow windows, light, dark and paper."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --ink: #1f2328; --quiet: #5c646d; --line: #dde1e6; --raised: #f5f7f9;
  --accent: #0b5cad; --good: #1a6b3c; --good-ground: #e6f4ea; --fair: #7a5200;
  --fair-ground: #fdf3d8; --bad: #a02318; --bad-ground: #fce8e6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16191d; --ink: #e6e6e6; --quiet: #a2a7ad; --line: #363c44; --raised: #1e2227;
    --accent: #7db8f5; --good: #7ad6a0; --good-ground: #17291f; --fair: #e8c268;
    --fair-ground: #2a2617; --bad: #ff9d92; --bad-ground: #371f1c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink); overflow-wrap: break-word;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3rem 0 .8rem; padding-top: 1.2rem;
     border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; line-height: 1.35; margin: 2rem 0 .5rem; }
/* Numbers with an exponent are not broken at its sign. */
.number { white-space: nowrap; }
p, ul { max-width: 46rem; margin: 0 0 1rem; }
ul { padding-left: 1.25rem; }
li { margin: 0 0 .4rem; }
.lead { font-size: 1.15rem; color: var(--quiet); margin-bottom: 1.5rem; }
.note { color: var(--quiet); font-size: .9rem; }
nav { margin: 0 0 1rem; font-size: .95rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem;
         max-width: none; }
nav li { margin: 0; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
code { font: .9em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
       background: var(--raised); border-radius: 4px; padding: .1em .3em; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 8px;
      padding: .8rem 1rem; margin: 0 0 1rem; overflow-x: auto; max-width: 100%;
      white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { background: none; padding: 0; font-size: .875rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
         margin: 0 0 1.5rem; padding: 0; }
.facts div { background: var(--raised); border: 1px solid var(--line); border-radius: 8px;
             padding: .6rem .9rem; display: flex; flex-direction: column-reverse;
             justify-content: flex-end; }
.facts dt { color: var(--quiet); font-size: .85rem; line-height: 1.35; }
.facts dd { margin: 0; font-size: 1.3rem; font-weight: 600; line-height: 1.35;
            font-variant-numeric: tabular-nums; }
.table { margin: 0 0 1.5rem; }
/* A shadow at either side says that there is more to scroll to. */
.box, .wide > figure > .picture {
  background:
    linear-gradient(to right, var(--ground) 1rem, transparent 2rem) left / 2rem 100%,
    linear-gradient(to left, var(--ground) 1rem, transparent 2rem) right / 2rem 100%,
    linear-gradient(to right, var(--quiet), transparent) left / .6rem 100%,
    linear-gradient(to left, var(--quiet), transparent) right / .6rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
.box { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
.wide > figure > .picture { overflow-x: auto; }
:is(a, pre, .box, .picture):focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; line-height: 1.4;
        font-variant-numeric: tabular-nums; }
/* Cells break at their spaces before a table is wider than its page. */
th, td { padding: .5rem .6rem; text-align: right; vertical-align: top;
         border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { font-weight: 600; vertical-align: bottom; font-size: .85rem;
           min-width: 4.5rem; border-bottom: 2px solid var(--line); }
tbody th { font-weight: 600; }
.left { text-align: left; }
.text { text-align: left; white-space: normal; min-width: 16rem; }
figcaption { color: var(--quiet); font-size: .9rem; line-height: 1.5; margin: .5rem 0 0;
             max-width: 46rem; }
.table > figcaption { margin: 0 0 .5rem; }
.good { color: var(--good); background: var(--good-ground); }
.fair { color: var(--fair); background: var(--fair-ground); }
.bad { color: var(--bad); background: var(--bad-ground); }
.quiet { color: var(--quiet); }
td.good, td.bad { font-weight: 600; }
.figures { display: grid; gap: 1.5rem 2rem; margin: 0 0 1.5rem;
           grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.figures.wide { display: block; }
figure { margin: 0; min-width: 0; }
.picture svg, .picture img { display: block; width: 100%; height: auto; }
.picture.dark { display: none; }
@media (prefers-color-scheme: dark) {
  .picture.light { display: none; }
  .picture.dark { display: block; }
}
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line);
         color: var(--quiet); font-size: .85rem; }
@media (min-width: 60rem) {
  .figures > figure:only-child { display: grid; grid-template-columns: 37rem 1fr; gap: 0 2rem; }
  .figures > figure:only-child > .picture { grid-column: 1; }
  .figures > figure:only-child > figcaption { grid-column: 2; align-self: center; margin: 0; }
  .figures.wide > figure:only-child { display: block; }
  .figures.wide figcaption { margin: .5rem 0 0; }
}
@media (max-width: 40rem) {
  main { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  h2 { font-size: 1.25rem; margin-top: 2.2rem; }
  .lead { font-size: 1.05rem; }
  .facts { grid-template-columns: 1fr 1fr; }
  .facts dd { font-size: 1.1rem; }
  th, td { padding: .45rem .6rem; }
  /* Rows one below the other, each cell with the name of its column: nothing is off screen. */
  .stacks, .stacks tbody, .stacks tr, .stacks th, .stacks td { display: block; width: 100%; }
  .stacks thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
                  clip-path: inset(50%); }
  .stacks tbody tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .stacks tbody tr:last-child { border-bottom: 0; }
  .stacks tbody td { display: flex; justify-content: space-between; gap: 1rem; border: 0;
                     padding: .2rem .6rem; text-align: right; white-space: normal; min-width: 0; }
  .stacks tbody td::before { content: attr(data-column); color: var(--quiet); text-align: left; }
  .stacks tbody td:empty { display: none; }
  .stacks tbody th { text-align: left; white-space: normal; border: 0; padding: .2rem .6rem; }
  .stacks .text { min-width: 0; }
  /* Wide pictures scroll before their letters become too small; the shadow shines through them. */
  .wide > figure > .picture > * { min-width: var(--readable); }
  .wide > figure > .picture.light > * { mix-blend-mode: darken; }
  .wide > figure > .picture.dark > * { mix-blend-mode: lighten; }
}
@media print {
  :root {
    color-scheme: light;
    --ground: #ffffff; --ink: #000000; --quiet: #444444; --line: #bbbbbb; --raised: #f3f3f3;
    --accent: #000000; --good: #000000; --good-ground: #ffffff; --fair: #000000;
    --fair-ground: #ffffff; --bad: #000000; --bad-ground: #ffffff;
  }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  .box, .wide > figure > .picture { overflow: visible; background: none; }
  table { font-size: 8.5pt; }
  th, td { white-space: normal; padding: .25rem .4rem; }
  pre { white-space: pre-wrap; }
  figure, tr, .facts div { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .picture.light { display: block; }
  .picture.dark { display: none; }
}
"""
