"use strict";
// The page of the explorer: fields to address, address to server, answers to the page.
// It asks again until everything is there; a newer state makes older answers be dropped.
const fields = ["n", "b", "m", "steps", "delta", "epsilon", "noise", "relation", "group", "with-epochs"];
const whole = new Set(["n", "b", "m", "steps", "bins", "group"]);
const pictures = {
  profile: "Delta against epsilon: each band reaches from what is attained to what is certified. MUSTwo lies on WR and MUSToo on WOR.",
  steps: "Epsilon against steps, at the same noise.",
  contour: "Certified epsilon of MUSTow over both sizes, at the same noise.",
};
const at = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
let requests = 0, timer = 0, told = null;

function value(name) {
  return at(name).type === "checkbox" ? (at(name).checked ? "yes" : "no") : at(name).value.trim();
}

function set(name, to) {
  if (at(name).type === "checkbox") at(name).checked = to === "yes";
  else at(name).value = to;
}

// The batches of an epoch: n / m, rounded up.
function bins() {
  return Math.max(1, Math.ceil(Number(at("n").value) / Number(at("m").value)));
}

function state() {
  const found = new URLSearchParams();
  for (const name of fields) {
    if (value(name)) found.set(name, value(name));
  }
  if (!found.has("epsilon") && !found.has("noise")) found.set("epsilon", "");
  return found;
}

function show(values) {
  for (const name of fields) set(name, values.get(name) ?? "");
  follow();
}

// Sliders and derived fields follow the fields.
function follow() {
  const known = Number.isFinite(bins());
  if (document.activeElement !== at("bins")) at("bins").value = known ? bins() : "";
  if (document.activeElement !== at("epochs")) {
    at("epochs").value = known ? +(Number(at("steps").value) / bins()).toPrecision(6) : "";
  }
  for (const slider of document.querySelectorAll("input[type=range]")) {
    const size = Number(at(slider.dataset.for).value);
    if (size > 0 && document.activeElement !== slider) slider.value = Math.log10(size);
  }
}

function changed(name) {
  if (name === "epsilon" && at("epsilon").value.trim()) at("noise").value = "";
  if (name === "noise" && at("noise").value.trim()) at("epsilon").value = "";
  const n = Number(at("n").value);
  // Not every number of bins is n / m for some m: the next smaller one is taken and shown.
  if (name === "bins" && Number(at("bins").value) > 0) {
    at("m").value = Math.max(1, Math.ceil(n / Number(at("bins").value)));
  }
  if (name === "epochs" && Number(at("epochs").value) > 0 && Number.isFinite(bins())) {
    at("steps").value = Math.max(1, Math.round(Number(at("epochs").value) * bins()));
  }
  if (name === "n" && Number(at("b").value) > n) at("b").value = n;
  follow();
  history.replaceState(null, "", "?" + state());
  soon(250);
}

function soon(wait) {
  requests += 1;
  clearTimeout(timer);
  at("table").classList.add("old");
  at("pictures").classList.add("old");
  const mine = requests;
  timer = setTimeout(() => ask(mine), wait);
}

async function ask(mine) {
  let answer, content;
  try {
    answer = await fetch("state.json?" + state());
    content = await answer.json();
  } catch {
    if (mine !== requests) return;
    problem("The explorer has stopped: start mustdp explore again. The last answers stay as they are.");
    at("doing").textContent = "";
    timer = setTimeout(() => ask(mine), 3000);
    return;
  }
  if (mine !== requests) return;
  if (!answer.ok) {
    problem(content.error ?? "This cannot be computed.", content.field);
    at("doing").textContent = "";
    return;
  }
  problem("");
  tell(content);
  if (content.done < content.total) timer = setTimeout(() => ask(mine), 500);
}

function problem(words, field = null) {
  at("problem").hidden = !words;
  if (at("problem").textContent !== words) at("problem").textContent = words;
  for (const name of fields) {
    at(name).setAttribute("aria-errormessage", "problem");
    if (name === field) at(name).setAttribute("aria-invalid", "true");
    else at(name).removeAttribute("aria-invalid");
  }
}

function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function tell(content) {
  const fresh = !told || told.address !== content.address;
  const before = fresh ? {} : told.pictures;
  told = content;
  at("table").classList.remove("old");
  at("pictures").classList.remove("old");
  const head = element("tr", "");
  head.append(...content.columns.map((name, k) => element("th", name, {scope: "col", class: k ? "" : "left"})));
  at("table").tHead.replaceChildren(head);
  at("table").tBodies[0].replaceChildren(...content.rows.map(row => {
    const line = element("tr", "");
    line.append(...row.map((cell, k) => k
      ? element("td", cell || "…", {"data-column": content.columns[k]})
      : element("th", cell, {scope: "row", class: "left"})));
    return line;
  }));
  at("words").replaceChildren();
  if (content.words.length) {
    at("words").append(element("p", "MUSTow, to quote: " + content.words.join(" ")));
  }
  for (const [what, why] of Object.entries(content.errors)) {
    at("words").append(element("p", what + ": " + why, {class: "note"}));
  }
  at("command").textContent = content.command;
  at("csv").href = "table.csv?" + content.address;
  at("tex").href = "table.tex?" + content.address;
  at("bar").max = content.total;
  at("bar").value = content.done;
  const ready = content.done === content.total;
  at("doing").textContent = ready ? "ready" : "computing: " + (content.doing.join(", ") || "waiting");
  document.body.dataset.ready = ready;
  for (const name of Object.keys(pictures)) {
    if (content.pictures[name] && !before[name]) draw(name);
    else if (fresh && !content.pictures[name]) at("picture-" + name)?.remove();
  }
}

function draw(name) {
  const query = told.address;
  const image = element("img", "", {
    src: name + ".svg?" + query + "&theme=" + (dark.matches ? "dark" : "light"),
    alt: pictures[name] + " The table has the numbers.", width: 461, height: 355,
  });
  const links = element("p", "", {class: "links"});
  for (const kind of ["svg", "pdf"]) {
    links.append(element("a", kind.toUpperCase(), {
      href: name + "." + kind + "?" + query, download: "mustdp-" + name + "." + kind,
      "aria-label": pictures[name] + " As " + kind.toUpperCase(),
    }));
  }
  const figure = element("figure", "", {id: "picture-" + name});
  figure.append(image, element("figcaption", pictures[name]), links);
  const old = at("picture-" + name);
  if (old) old.replaceWith(figure);
  else at("pictures").append(figure);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    at("copied").textContent = what + " copied.";
  } catch {
    at("copied").textContent = "The browser does not allow copying: " + text;
  }
}

async function begin() {
  const defaults = await (await fetch("defaults.json")).json();
  const given = new URLSearchParams(location.search);
  const values = new URLSearchParams(defaults);
  for (const [name, value] of given) values.set(name, value);
  if (given.get("noise")) values.set("epsilon", given.get("epsilon") ?? "");
  show(values);
  for (const name of [...fields, "bins", "epochs"]) {
    at(name).addEventListener(at(name).matches("select, [type=checkbox]") ? "change" : "input", () => changed(name));
    at(name).addEventListener("blur", follow);
  }
  for (const slider of document.querySelectorAll("input[type=range]")) {
    slider.addEventListener("input", () => {
      const name = slider.dataset.for;
      const size = Number((10 ** Number(slider.value)).toPrecision(3));
      at(name).value = whole.has(name) ? Math.max(1, Math.round(size)) : size;
      changed(name);
    });
  }
  at("settings").addEventListener("submit", event => event.preventDefault());
  at("copy-command").addEventListener("click", () => told && copy(told.command, "Command"));
  at("copy-python").addEventListener("click", () => told && copy(told.python, "Python"));
  at("copy-address").addEventListener("click", () => told && copy("?" + told.address, "Address, to put after that of an explorer or after mustdp explore,"));
  dark.addEventListener("change", () => Object.keys(pictures).forEach(name => told?.pictures[name] && draw(name)));
  soon(0);
}

begin();
