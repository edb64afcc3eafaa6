// The reference: copy buttons, the language of samples, quick search, and sending requests.
// Pages are complete without this script. A key that the reader enters stays in a variable of this
// page and is sent only to this service.
"use strict";

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// ── copying ─────────────────────────────────────────────────────────────────────────────────────

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea", { value: text, className: "off-page" }); // no clipboard API over http
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function addCopyButton(block) {
  const button = make("button", { type: "button", className: "copy", textContent: "Copy" });
  button.setAttribute("aria-label", `Copy: ${block.getAttribute("aria-label")}`);
  const announcement = make("span", { className: "off-page" });
  announcement.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    try {
      await copy(block.textContent);
      button.textContent = announcement.textContent = "Copied";
    } catch {
      button.textContent = announcement.textContent = "Not copied";
    }
    setTimeout(() => { button.textContent = "Copy"; announcement.textContent = ""; }, 2000);
  });
  const frame = make("div", { className: "copied" });
  block.replaceWith(frame);
  frame.append(block, button, announcement);
}

// ── the language of samples: one choice for all operations, stored for the next visit ───────────

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
      try { localStorage.setItem(LANGUAGE, sample.parentElement.dataset.language); } catch { /* storage is disabled */ }
    });
  }
  let stored = null;
  try { stored = localStorage.getItem(LANGUAGE); } catch { /* storage is disabled */ }
  if (document.querySelector(`details[data-language="${CSS.escape(stored ?? "")}"]`)) showLanguage(stored);
}

// ── quick search: shows the results of the search page below the field ──────────────────────────

function addSearch(form) {
  const input = form.elements.q;
  const list = make("div", { className: "quick", hidden: true });
  const announcement = make("p", { className: "off-page" });
  announcement.setAttribute("role", "status");
  form.append(list, announcement);
  let latestSearch = 0;
  const close = () => { list.hidden = true; };

  async function search() {
    const query = input.value.trim();
    const number = ++latestSearch;
    if (query.length < 2) return close();
    const response = await fetch(`${form.action}?q=${encodeURIComponent(query)}`, { credentials: "omit" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (number !== latestSearch) return; // the reader has typed another query meanwhile
    const results = page.querySelector("#found");
    results.removeAttribute("id");
    list.replaceChildren(results);
    list.hidden = false;
    const hits = list.querySelectorAll("li").length;
    announcement.textContent = hits === 1 ? "1 place found" : `${hits} places found`;
  }

  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => search().catch(close), 120);
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

// ── sending requests ────────────────────────────────────────────────────────────────────────────

const keys = {}; // header → key that the reader has entered, for all boxes of this page

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
    // The address has no host, so that only this service gets the key. Cookies are not sent.
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
    if (agreed) agreed.checked = false; // the reader must agree to each change separately
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
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* show invalid JSON unchanged */ }
  }
  const block = make("pre", { tabIndex: 0 }, make("code", { textContent: shown }));
  block.setAttribute("role", "group");
  block.setAttribute("aria-label", `Response ${response.status}`);
  outcome.replaceChildren(line, block);
  addCopyButton(block);
}

// ── start ───────────────────────────────────────────────────────────────────────────────────────

document.querySelectorAll("pre").forEach(addCopyButton);
addLanguages();
document.querySelectorAll("form.search").forEach(addSearch);
document.querySelectorAll("template[data-trial]").forEach(addTrial);
const contents = document.querySelector(".contents > details");
if (matchMedia("(max-width: 59.99rem)").matches) contents.open = false;
const [current, list] = [document.querySelector("[aria-current=page]"), document.querySelector(".contents")];
if (current) list.scrollTop = current.offsetTop - list.clientHeight / 3;
