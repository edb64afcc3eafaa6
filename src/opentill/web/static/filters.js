// Applies the filters of a list as soon as one of them changes, so that the form needs no button. A form
// with data-applies, whose choice decides what the page shows, does the same. The button stays for the
// keyboard: it appears when it gets the focus. Without this script it is shown.
"use strict";

const chosen = ".chip > label :is(select, input), form[data-applies] select";

for (const form of document.querySelectorAll("form:is(.filters[role=search], [data-applies])")) {
  let isTyped = false; // each arrow key changes a select: wait until the reader leaves it
  let isChanged = false;
  form.classList.add("applies-itself");
  form.addEventListener("pointerdown", () => { isTyped = false; });
  form.addEventListener("keydown", (event) => {
    if (event.target.matches(chosen) && event.key !== "Tab") isTyped = true;
    if (event.target.matches("select") && event.key === "Enter" && isChanged) form.requestSubmit();
  });
  form.addEventListener("change", (event) => {
    if (!event.target.matches(chosen)) return;
    isChanged = true;
    if (!isTyped) form.requestSubmit();
  });
  form.addEventListener("focusout", (event) => {
    if (isChanged && isTyped && event.target.matches(chosen)) form.requestSubmit();
  });
  // A search that was emptied by its cross shows all rows again.
  form.addEventListener("search", (event) => {
    if (event.target.value === "" && event.target.defaultValue !== "") form.requestSubmit();
  }, true);
}

// Tabs with numbers are one line on a phone: the current one is scrolled into view.
for (const tab of document.querySelectorAll(".tabs.counted [aria-current]")) {
  const line = tab.closest("ul");
  line.scrollLeft = tab.offsetLeft - line.offsetLeft - (line.clientWidth - tab.clientWidth) / 2;
}

// A dialog that was opened from a menu of actions closes the menu, when it is closed itself: its button in
// the menu gets the focus back first.
document.addEventListener("toggle", (event) => {
  if (event.newState !== "closed" || !event.target.matches(".sheet")) return;
  for (const menu of document.querySelectorAll(".more-actions[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
}, true);
