// The key "/" moves the focus to the search of the header, unless a field has it. Escape gives the
// focus back.
"use strict";

const box = document.getElementById("q");
const typed = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target instanceof Element && event.target.closest(typed)) return;
  event.preventDefault();
  box.focus();
  box.select();
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !box.value) box.blur();
});
