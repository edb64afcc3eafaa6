// The key "/" moves the focus to the search of the header, unless a field has it. Escape gives the
// focus back. While somebody types, the first results are shown below the field: the arrow keys move
// between them. Without this script the search is a form.
"use strict";

const box = document.getElementById("q");
const typed = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const LEAST = 2; // characters

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target instanceof Element && event.target.closest(typed)) return;
  event.preventDefault();
  box.focus();
  box.select();
});

const list = document.createElement("div");
list.className = "suggestions";
list.hidden = true;
box.form.append(list);
let timer = 0;
let request = null; // the one whose response is awaited

function hide() {
  clearTimeout(timer);
  request?.abort();
  list.hidden = true;
}

async function suggest() {
  const text = box.value.trim();
  if (text.length < LEAST) {
    hide();
    return;
  }
  request?.abort();
  request = new AbortController();
  const { signal } = request;
  const query = new URLSearchParams({ q: text, suggest: "1" });
  try {
    // A redirect leads to the login, which is no list of suggestions.
    const response = await fetch(`${box.form.action}?${query}`, { redirect: "manual", signal });
    if (!response.ok) return;
    list.innerHTML = await response.text();
    list.hidden = !box.form.contains(document.activeElement);
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof TypeError)) throw error;
  }
}

box.addEventListener("input", (event) => {
  clearTimeout(timer);
  if (!event.isComposing) timer = setTimeout(suggest, 200);
});
box.form.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !list.hidden) {
    hide();
    box.focus();
    event.preventDefault(); // keeps the text
  } else if (event.key === "Escape" && !box.value) {
    box.blur();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden) {
    const stops = [box, ...list.querySelectorAll("a")];
    const move = event.key === "ArrowDown" ? 1 : stops.length - 1;
    stops[(stops.indexOf(document.activeElement) + move) % stops.length].focus();
    event.preventDefault();
  }
});
box.form.addEventListener("focusout", (event) => {
  if (!box.form.contains(event.relatedTarget)) hide();
});
box.form.addEventListener("submit", hide);
