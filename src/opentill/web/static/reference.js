// The reference: copying, the language of samples, quick search, and trying an operation out.
// Without this script every page reads as well; it only adds. A key that somebody types is kept in
// a variable of this page, and is sent to this service alone.
"use strict";

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// ── copying ─────────────────────────────────────────────────────────────────────────────────────

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea", { value: text, className: "off-page" }); // plain http has no clipboard
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function addCopyButton(block) {
  const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-label", `Copy: ${block.getAttribute("aria-label")}`);
  const said = make("span", { className: "off-page" });
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    try {
      await copy(block.textContent);
      button.textContent = said.textContent = "Copied";
    } catch {
      button.textContent = said.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
  });
  const frame = make("div", { className: "copied" });
  block.replaceWith(frame);
  frame.append(block, button, said);
}

// ── the language of samples: chosen once, for all operations and for the next visit ─────────────

const LANGUAGE = "opentill-reference-language";

function showLanguage(language) {
  for (const sample of document.querySelectorAll("details[data-language]")) {
    const open = sample.dataset.language === language;
    if (sample.open !== open) sample.open = open;
  }
}

function addLanguages() {
  for (const sample of document.querySelectorAll("details[data-language] > summary")) {
    sample.addEventListener("click", (event) => {
      const above = sample.getBoundingClientRect().top;
      event.preventDefault();
      showLanguage(sample.parentElement.dataset.language);
      scrollBy(0, sample.getBoundingClientRect().top - above);
      try { localStorage.setItem(LANGUAGE, sample.parentElement.dataset.language); } catch { /* not kept */ }
    });
  }
  let kept = null;
  try { kept = localStorage.getItem(LANGUAGE); } catch { /* not kept */ }
  if (document.querySelector(`details[data-language="${CSS.escape(kept ?? "")}"]`)) showLanguage(kept);
}

// ── quick search: what the page of the search would show, below the field ───────────────────────

function addSearch(form) {
  const input = form.elements.q;
  const list = make("div", { className: "quick", hidden: true });
  const said = make("p", { className: "off-page" });
  said.setAttribute("role", "status");
  form.append(list, said);
  let asked = 0;
  const close = () => { list.hidden = true; };

  async function look() {
    const query = input.value.trim();
    const number = ++asked;
    if (query.length < 2) return close();
    const response = await fetch(`${form.action}?q=${encodeURIComponent(query)}`, { credentials: "omit" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (number !== asked) return; // something else was typed meanwhile
    const found = page.querySelector("#found");
    found.removeAttribute("id");
    list.replaceChildren(found);
    list.hidden = false;
    const hits = list.querySelectorAll("li").length;
    said.textContent = hits === 1 ? "1 place found" : `${hits} places found`;
  }

  let waiting;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => look().catch(close), 120);
  });
  form.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "Escape") { close(); input.focus(); return; }
    if (list.hidden || !links.length || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    (links[next] ?? input).focus();
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) close(); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
}

// ── trying an operation out ─────────────────────────────────────────────────────────────────────

const keys = {}; // header → what was typed: for all boxes of this page, and nowhere else

function addTrial(template) {
  const { method, address } = template.dataset;
  const box = template.content.firstElementChild.cloneNode(true);
  const outcome = box.querySelector(".outcome");
  const agreed = box.querySelector("[data-agreed]");
  const send = box.querySelector("[data-send]");
  template.replaceWith(box);

  for (const field of box.querySelectorAll("[data-key]")) {
    field.addEventListener("input", () => { keys[field.dataset.key] = field.value; });
    box.addEventListener("toggle", () => { field.value = keys[field.dataset.key] ?? ""; });
  }
  if (agreed) {
    send.disabled = true;
    agreed.addEventListener("change", () => { send.disabled = !agreed.checked; });
  }

  function request() {
    const query = new URLSearchParams();
    let path = address;
    for (const field of box.querySelectorAll("[data-place]")) {
      const { place, name } = field.dataset;
      const value = field.value.trim();
      if (place === "query" && value) query.set(name, value);
      if (place !== "path") continue;
      if (!value) { field.focus(); throw new Error(`${name} is required.`); }
      path = path.replace(`{${name}}`, encodeURIComponent(value));
    }
    const headers = {};
    for (const field of box.querySelectorAll("[data-key]")) {
      if (!field.value.trim()) { field.focus(); throw new Error("The request needs your key."); }
      headers[field.dataset.key] = field.dataset.scheme + field.value.trim();
    }
    const body = box.querySelector("[data-body]");
    if (body) headers["Content-Type"] = body.dataset.body;
    if (method === "POST") headers["Idempotency-Key"] = randomKey();
    // Only to this service: an address without a host. No cookie goes along, nothing is cached.
    const options = { method, headers, credentials: "omit", cache: "no-store", redirect: "error" };
    if (body) options.body = body.value;
    return [query.size ? `${path}?${query}` : path, options];
  }

  send.addEventListener("click", async () => {
    outcome.replaceChildren();
    send.disabled = true;
    try {
      const [path, options] = request();
      const started = performance.now();
      const response = await fetch(path, options);
      const text = await response.text();
      show(outcome, response, text, performance.now() - started);
    } catch (error) {
      outcome.replaceChildren(make("p", { className: "wrong", textContent: error.message }));
    }
    if (agreed) agreed.checked = false; // each change is agreed to by itself
    send.disabled = Boolean(agreed);
  });
}

function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function show(outcome, response, text, lasted) {
  const status = make("span", { className: `status status-${String(response.status)[0]}`, textContent: response.status });
  const requestId = response.headers.get("x-request-id") ?? "";
  const line = make("p", {}, status, ` in ${Math.round(lasted)} ms · x-request-id `, make("code", { textContent: requestId }));
  let shown = text;
  if (response.headers.get("content-type")?.includes("json")) {
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
  }
  const block = make("pre", { tabIndex: 0 }, make("code", { textContent: shown }));
  block.setAttribute("role", "group");
  block.setAttribute("aria-label", `Response ${response.status}`);
  outcome.replaceChildren(line, block);
  addCopyButton(block);
}

// ── all of it ───────────────────────────────────────────────────────────────────────────────────

document.querySelectorAll("pre").forEach(addCopyButton);
addLanguages();
document.querySelectorAll("form.search").forEach(addSearch);
document.querySelectorAll("template[data-trial]").forEach(addTrial);
const contents = document.querySelector(".contents > details");
if (matchMedia("(max-width: 59.99rem)").matches) contents.open = false;
const [here, list] = [document.querySelector("[aria-current=page]"), document.querySelector(".contents")];
if (here) list.scrollTop = here.offsetTop - list.clientHeight / 3;
